"""The runs' tasks, each with its scores and answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.egoplan.report.answers import Answered, Key, read_answer
from lmms_egoplan.report.by_question import by_question
from lmms_egoplan.report.document import Value
from lmms_egoplan.report.recompute import aggregations, shared_file
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.statistics import bootstrap_interval

CHANCE = 25.0
"""Per cent: one of four choices is right."""

DECIMALS = 2
MAIN_TASK = "egoplan_val"
UNSEEN = ("_blind", "_narrated")
"""Ends of the names of tasks without a picture."""

# The files in ``tasks/shared`` that score a choice.
_SCORED = ("egoplan_ranking", "egoplan_replies")


@dataclass(frozen=True)
class Series:
    """One task of a run.

    name: the run's, with the task's behind it where that is not ``egoplan_val``.
    model: the run's, by the longest name that any run has for it.
    look: number of its colour and marker.
    is_ranked: by likelihood; else a letter was written.
    answers: None without samples.
    """

    name: str
    run: Run
    model: str
    look: int
    task_run: TaskRun
    is_ranked: bool
    answers: dict[Key, Answered] | None

    @property
    def is_main(self) -> bool:
        return _is_main(self.task_run)

    @property
    def unseen(self) -> str | None:
        """What kind of baseline without the video this is."""
        return next((end for end in UNSEEN if self.task_run.task.endswith(end)), None)

    def percent(self, metric: str) -> float | None:
        value = self.number(metric)
        return None if value is None else 100 * value

    def number(self, metric: str) -> int | float | None:
        return self.task_run.number(metric)

    def interval(self, keys: Iterable[Key] | None = None) -> tuple[float, float] | None:
        """Of the accuracy over these questions, or all."""
        answers = self.answers or {}
        scored = [answers[key] for key in (answers if keys is None else keys) if answers[key].score is not None]
        return bootstrap_interval([100 * each.score for each in scored], [each.video_id for each in scored])

    @property
    def questions(self) -> int | None:
        """Those that the accuracy is over."""
        return self.number("predictions" if self.is_ranked else "num_questions")

    def counts(self) -> dict[str, Value]:
        """By the keys of the columns of interval and counts."""
        low, high = self.interval() or (None, None)
        return {"low": low, "high": high, "questions": self.questions, "coverage": self.percent("coverage")}


def read_series(runs: Sequence[Run]) -> list[Series]:
    """The tasks of this benchmark, run by run, ``egoplan_val`` first.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the tasks log, or a question is there twice.
    """
    own = [run for run in runs if any(map(_metrics, run.tasks.values()))]
    models = _models(own)
    looks: dict[str, int] = {}
    for run in sorted(own, key=lambda run: not any(_is_main(task_run) for task_run in run.tasks.values())):
        has_main = any(map(_is_main, run.tasks.values()))
        same = [looks[other.name] for other in own if other.name in looks and models[other.name] == models[run.name]]
        looks[run.name] = same[0] if same and not has_main else len(set(looks.values()))
    found = []
    for run in own:
        for task in sorted(run.tasks, key=lambda task: (task != MAIN_TASK, task.endswith(UNSEEN))):
            task_run = run.tasks[task]
            if metrics := _metrics(task_run):
                answers = None
                if task_run.samples is not None:
                    read = (read_answer(run, task_run, sample) for sample in task_run.samples)
                    answers = by_question(run, task_run, read, lambda key: f"question {key[1]}")
                name = run.name if task == MAIN_TASK else f"{run.name} ({task})"
                look, is_ranked = looks[run.name], "acc_sum" in metrics
                found.append(Series(name, run, models[run.name], look, task_run, is_ranked, answers))
    return found


def _models(runs: Sequence[Run]) -> dict[str, str]:
    """Each run's model; one harness may tell a path of which the other tells the end."""
    names = {run.model for run in runs}
    found = {}
    for run in runs:
        longer = [name for name in names if name.endswith(f"/{run.model}")]
        found[run.name] = longer[0] if len(longer) == 1 else run.model
    return found


def _is_main(task_run: TaskRun) -> bool:
    """Whether choices were ranked behind the video, as in the paper."""
    return "acc_sum" in (_metrics(task_run) or {}) and not task_run.task.endswith(UNSEEN)


def _metrics(task_run: TaskRun) -> Mapping[str, str] | None:
    """The metrics of a task of this benchmark."""
    return aggregations(task_run.config) if shared_file(task_run.config) in _SCORED else None
