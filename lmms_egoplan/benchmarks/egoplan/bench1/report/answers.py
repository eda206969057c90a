"""What runs answered to EgoPlan's questions, and their accuracies."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lmms_egoplan.benchmarks.egoplan.bench1 import splits
from lmms_egoplan.benchmarks.egoplan.bench1.records import SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.report.answers import ChoiceSeries, read_choice
from lmms_egoplan.report.recompute import shared_file
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.scored import read_tasks

MAIN_TASK = "egoplan_val"
UNSEEN = ("_blind", "_narrated")
"""Ends of the names of tasks without a picture."""

OFFICIAL = splits.OFFICIAL["val"]
"""Questions of EgoPlan-Val."""

# The files in ``tasks/shared`` that score a choice.
_RANKING = "egoplan_ranking"
_FILES = (_RANKING, "egoplan_replies")

_answer = partial(read_choice, id_of=int, domain_metrics=SOURCE_METRIC)


@dataclass(frozen=True)
class Series(ChoiceSeries):
    """One task of a run; `Choice.domain` is the video source.

    model: the run's, by the longest name that any run has for it.
    look: number of its colour and marker.
    """

    RANKING = _RANKING
    OFFICIAL = OFFICIAL

    model: str
    look: int

    @property
    def is_main(self) -> bool:
        return _is_main(self.task_run)

    @property
    def unseen(self) -> str | None:
        """What kind of baseline without the video this is."""
        return next((end for end in UNSEEN if self.task_run.task.endswith(end)), None)

    @property
    def short_name(self) -> str:
        """Where there is little room."""
        task = self.task_run.task
        if task == MAIN_TASK:
            return self.run.name
        return f"{self.run.name}, {task.removeprefix(MAIN_TASK).strip('_') or task}"


def read_series(runs: Sequence[Run]) -> list[Series]:
    """The tasks of this benchmark, run by run, ``egoplan_val`` first.

    Raises:
        LmmsEgoplanError: see `read_answers`.
    """
    own = [run for run in runs if any(shared_file(task_run.config) in _FILES for task_run in run.tasks.values())]
    models = _models(own)
    looks: dict[str, int] = {}
    for run in sorted(own, key=lambda run: not any(map(_is_main, run.tasks.values()))):
        has_main = any(map(_is_main, run.tasks.values()))
        same = [looks[other.name] for other in own if other.name in looks and models[other.name] == models[run.name]]
        looks[run.name] = same[0] if same and not has_main else len(set(looks.values()))
    series = [
        Series(*task, models[task[1].name], looks[task[1].name]) for task in read_tasks(own, _FILES, MAIN_TASK, _answer)
    ]
    order = list(models)
    return sorted(
        series, key=lambda task: (order.index(task.run.name), task.task != MAIN_TASK, task.task.endswith(UNSEEN))
    )


def _models(runs: Sequence[Run]) -> dict[str, str]:
    """Each run's model; one harness may tell a path of which the other tells the end."""
    names = {run.model for run in runs}
    longer = {run.name: [name for name in names if name.endswith(f"/{run.model}")] for run in runs}
    return {run.name: longer[run.name][0] if len(longer[run.name]) == 1 else run.model for run in runs}


def _is_main(task_run: TaskRun) -> bool:
    """Whether choices were ranked behind the video, as in the paper."""
    return shared_file(task_run.config) == _RANKING and not task_run.task.endswith(UNSEEN)
