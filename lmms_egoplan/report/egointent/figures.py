"""EgoIntent's heat map: runs by scenarios."""

from collections.abc import Sequence
from functools import partial

from lmms_egoplan.benchmarks.egointent.heatmap import Heatmap, make_heatmap
from lmms_egoplan.benchmarks.egointent.heatmap_drawing import draw_heatmap
from lmms_egoplan.benchmarks.egointent.logged_runs import LoggedRun, LoggedStep
from lmms_egoplan.report.contents import Figure
from lmms_egoplan.report.egointent.answers import Graded


def heatmap_of(graded: Sequence[Graded]) -> Heatmap | None:
    """Of the runs with samples; None without any."""
    logged = [_logged_run(run) for run in graded if run.steps]
    return make_heatmap(logged) if logged else None


def _logged_run(run: Graded) -> LoggedRun:
    steps = {
        step.graded.step_id: LoggedStep(step.graded, step.scenario, step.unverified) for step in run.steps.values()
    }
    return LoggedRun(run.name, steps, run.task_run.version, *run.prompts)


def heatmap_figure(heatmap: Heatmap) -> Figure:
    """As Fig. 7 of the paper."""
    best = heatmap.models[0]
    return Figure(
        key="egointent_heatmap",
        title="Overall score by scenario",
        caption="As Fig. 7 of the paper: the run with the highest overall score on top, the scenario with the lowest "
        f"average on the left; the numbers are those of the table. {' · '.join(heatmap.notes)}.",
        draw=partial(draw_heatmap, heatmap, titled=False),
        description=f"A grid of {len(heatmap.models)} runs by {len(heatmap.scenarios)} scenarios, each cell with its "
        f"score and darker where it is higher. Highest overall: {best}. Hardest scenario: {heatmap.scenarios[0]}.",
    )
