"""EgoIntent's heat maps: runs by scenarios, and runs over Goal-Step steps by categories."""

from collections.abc import Sequence
from functools import partial

from lmms_egoplan.benchmarks.egointent.answer_files import LoggedRun, LoggedStep
from lmms_egoplan.benchmarks.egointent.heatmap import Heatmap, make_heatmap
from lmms_egoplan.benchmarks.egointent.heatmap_drawing import draw_heatmap
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.report.answers import Graded
from lmms_egoplan.report.document import Figure


def heatmaps_of(graded: Sequence[Graded]) -> list[Heatmap]:
    """Of the runs with samples: one of the benchmark's steps and one of Goal-Step's, as far as there are such runs."""
    logged = [[_logged_run(run) for run in graded if run.steps and run.is_goalstep is kind] for kind in (False, True)]
    return [make_heatmap(runs) for runs in logged if runs]


def _logged_run(run: Graded) -> LoggedRun:
    steps = {
        step.graded.step_id: LoggedStep(step.graded, step.group, step.unverified, step.is_goalstep)
        for step in run.steps.values()
    }
    return LoggedRun(run.name, steps, run.task_run.version, *run.prompts)


def heatmap_figure(heatmap: Heatmap) -> Figure:
    """As Fig. 7 of the paper."""
    best = heatmap.models[0]
    shown = f"{GOALSTEP_STEPS} by the category of their goal" if heatmap.is_goalstep else "As Fig. 7 of the paper"
    return Figure(
        key="egointent_goalstep_heatmap" if heatmap.is_goalstep else "egointent_heatmap",
        title=heatmap.title if heatmap.is_goalstep else "Overall score by scenario",
        caption=f"{shown}: the run with the highest overall score on top, the {heatmap.by} with the lowest average on "
        f"the left; the numbers are those of the table. {' · '.join(heatmap.notes)}.",
        draw=partial(draw_heatmap, heatmap, titled=False),
        description=f"A grid of {len(heatmap.models)} runs by {len(heatmap.scenarios)} columns, each cell with its "
        f"score and darker where it is higher. Highest overall: {best}. Hardest {heatmap.by}: {heatmap.scenarios[0]}.",
    )
