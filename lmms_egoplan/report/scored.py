"""What runs answered, question by question, and their scores over some of these questions."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from typing import Any, TypeVar

from lmms_egoplan.coverage import OFFICIAL, RENDERED_SCENES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.report.comparisons import comparisons
from lmms_egoplan.report.document import Column, Table
from lmms_egoplan.report.numbers import percent
from lmms_egoplan.report.recompute import shared_file
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, RESAMPLES, bootstrap_interval
from lmms_egoplan.serialization import TextRecord

Key = tuple[Hashable, ...]
"""What tells a question from all others, its id among it: other data may use the same ids."""

Record = TypeVar("Record", bound=TextRecord)


@dataclass(frozen=True)
class Answer:
    """What a run answered to one question, and how it was scored.

    id: the question's in its benchmark.
    name: the question's, in a message.
    record: all that is known of the answer, in the benchmark's own form.
    scores: by measure; None where the answer has none.
    cluster: what is drawn whole for intervals, such as the question's video.
    groups: which group the question is in, by attribute, such as ``setting``.
    doc: the prepared row, which lm-eval alone logs.
    prompt: as it was sent, without images; None where the harness does not log it.
    tokens: of the prompt and of the answer, as the harness counts them; None where it does not.
    """

    key: Key
    id: str
    name: str
    record: Any
    scores: Mapping[str, float | None]
    cluster: str | None
    groups: Mapping[str, str] = field(default_factory=dict)
    doc: Mapping[str, Any] | None = None
    prompt: str | None = None
    tokens: tuple[int, int] | None = None


@dataclass(frozen=True)
class Mean:
    """Mean of a measure over the questions that have it; None is what is not known or not there.

    interval: 95 %, of `bootstrap_interval`.
    clusters: how many the questions are of.
    """

    value: float | None = None
    interval: tuple[float, float] | None = None
    questions: int | None = None
    clusters: int | None = None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Of the interval."""
        return self.interval or (None, None)

    def cells(self, value: str, prefix: str = "", scale: float = 1) -> dict[str, float | None]:
        """Value and interval by the keys of their columns, see `ends`."""
        numbers = (self.value, *self.ends)
        names = (value, f"{prefix}low", f"{prefix}high")
        return {name: None if x is None else scale * x for name, x in zip(names, numbers, strict=True)}


@dataclass(frozen=True)
class Scored(ABC):
    """What a run has of a benchmark.

    name: as tables have it.
    answers: by question; None without samples.
    """

    name: str
    run: Run
    answers: Mapping[Key, Answer] | None

    @property
    @abstractmethod
    def task(self) -> str:
        """The name of the task, or of the tasks together."""

    @property
    @abstractmethod
    def main(self) -> Mean:
        """The main score."""

    @property
    @abstractmethod
    def coverage(self) -> float | None:
        """Share of the official questions that it is over, of the prepared ones if `is_official` is false.

        None if unknown.
        """

    @property
    def question_set(self) -> str:
        """Whose questions were asked, see `covered`."""
        return OFFICIAL

    @property
    def is_official(self) -> bool:
        """Whether the questions are the benchmark's, all of them or a part."""
        return self.question_set == OFFICIAL

    @property
    @abstractmethod
    def truncated(self) -> float | None:
        """Share of the answers that the limit on new tokens ended; None where unknown."""

    @property
    def judge(self) -> str | None:
        """Who rated the answers; several behind commas."""
        return None

    @property
    def is_by_demo(self) -> bool:
        """Whether ratings are by the demo judge, and mean nothing."""
        return DEMO in (self.judge or "").split(", ")

    @property
    def is_demo(self) -> bool:
        """Whether the score tells nothing of a model: of the demo's judge, or of its questions."""
        return self.is_by_demo or RENDERED_SCENES in self.question_set

    @property
    def inexact(self) -> str | None:
        """Why the answers are not exact, so that no rank and no comparison may use them; None if they are."""
        return None

    @property
    def apart(self) -> tuple[str, ...]:
        """Why the main score compares with no published one and with no other run's; empty where it does.

        What a benchmark adds, such as other data, stands before these.
        """
        found = [self.inexact] if self.inexact else []
        found += [] if self.is_official else [self.question_set]
        found += ["rated by the demo judge"] if self.is_by_demo else []
        if self.coverage is None:
            found.append("coverage unknown")
        elif self.coverage < 1:
            found.append(f"{percent(self.coverage)} of the {'official' if self.is_official else 'prepared'} questions")
        return tuple(found)

    @property
    def asked_of(self) -> str:
        """A sentence on questions that are not the benchmark's; "" if they are."""
        if self.is_official:
            return ""
        return f"not the benchmark's questions ({self.question_set}): coverage is the share of the prepared questions."

    @property
    def conditions(self) -> dict[str, str | None]:
        """What must be the same in two runs whose scores are compared, by name in the plural."""
        return {"tasks": self.task, "judges": self.judge}


@dataclass(frozen=True)
class ScoredTask(Scored):
    """One task of a run.

    name: the run's, with the task's behind it where that is not the benchmark's main task.
    """

    task_run: TaskRun

    @property
    def task(self) -> str:
        return self.task_run.task

    @property
    def question_set(self) -> str:
        return self.text("question_set") or OFFICIAL

    @property
    def truncated(self) -> float | None:
        return self.number("truncated")

    def number(self, metric: str) -> int | float | None:
        """The harness's own value; None for NaN and for what is not there."""
        return self.task_run.number(metric)

    def percent(self, metric: str) -> float | None:
        """A share, in per cent."""
        return in_percent(self.number(metric))

    def text(self, metric: str) -> str | None:
        """A metric that is a text; None for what is none."""
        value = self.task_run.metrics.get(metric)
        return value if isinstance(value, str) else None

    @property
    def judge(self) -> str | None:
        judge = self.text("judge_model")
        return None if judge == "none" else judge


def read_tasks(
    runs: Iterable[Run], files: Collection[str], main: str, read: Callable[[Mapping[str, Any]], Answer]
) -> Iterator[tuple[str, Run, dict[Key, Answer] | None, TaskRun]]:
    """The fields of a `ScoredTask` for each task that one of these files in ``tasks/shared`` scores.

    Args:
        main: the task whose name is not told behind the run's.
        read: see `read_answers`.

    Raises:
        LmmsEgoplanError: see `read_answers`.
    """
    for run in runs:
        for task, task_run in run.tasks.items():
            if shared_file(task_run.config) in files:
                name = run.name if task == main else f"{run.name} ({task})"
                yield name, run, read_answers(run, task_run, read), task_run


def read_answers(run: Run, task_run: TaskRun, read: Callable[[Mapping[str, Any]], Answer]) -> dict[Key, Answer] | None:
    """The answers in a task's samples; None without samples.

    Args:
        read: of one logged line; raises a ValueError where that is not of the form that the task logs.

    Raises:
        LmmsEgoplanError: a sample is not of that form, or a question is there twice; names run, task and question.
    """
    if task_run.samples is None:
        return None
    where = f"{run.folder}, run {run.name}, samples of {task_run.task}"
    answers: dict[Key, Answer] = {}
    for sample in task_run.samples:
        try:
            answer = read(sample)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            changed = "they may have been changed, or written by another version"
            told = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}; {changed}"
            raise LmmsEgoplanError(
                f"{where}: {told}. Run again, or leave the samples out: {run.harness} --tasks {task_run.task} "
                "--model ... --output_path DIR --log_samples"
            ) from error
        if answer.key in answers:
            raise LmmsEgoplanError(
                f"{where}: {answer.name} is there twice; were samples of two runs put together? Run again, or leave "
                "the samples out"
            )
        answers[answer.key] = replace(answer, prompt=sample.get("prompt"), tokens=sample.get("tokens"))
    return answers


def logged(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """A scored answer as a run logs it, whose fields stand among others.

    Raises:
        ValueError: it is something else.
    """
    names = {part.name for part in fields(kind)}
    return kind.from_text(json.dumps({name: value for name, value in values.items() if name in names}))


def mean_of(answers: Iterable[Answer], measure: str, scale: float = 1.0) -> Mean:
    """Of the answers that have the measure; `scale` multiplies it: 100 for per cent."""
    chosen = [answer for answer in answers if answer.scores[measure] is not None]
    if not chosen:
        return Mean(questions=0, clusters=0)
    values, clusters = [scale * answer.scores[measure] for answer in chosen], [answer.cluster for answer in chosen]
    return Mean(fmean(values), bootstrap_interval(values, clusters), len(chosen), len(set(clusters)))


def compared(
    runs: Sequence[Scored],
    measure: str,
    key: str,
    title: str,
    decimals: int,
    unit: str,
    note: str | None = None,
    scale: float = 1.0,
) -> Table | None:
    """`comparisons` of a measure, over the questions that two runs have it for; without runs that are inexact.

    Args:
        note: of the table, behind the others.
        key, title, decimals, unit, scale: see `comparisons`.
    """
    known = {run.name: run.answers for run in runs if run.answers and not run.inexact}
    notes = [*([note] if note else []), *(f"Not compared: {run.name}, {run.inexact}." for run in runs if run.inexact)]
    scores = {
        name: {_text(question): answer.scores[measure] for question, answer in of_run.items()}
        for name, of_run in known.items()
    }
    clusters = {
        _text(question): answer.cluster
        for of_run in known.values()
        for question, answer in of_run.items()
        if answer.cluster is not None
    }
    return comparisons(scores, clusters, key, title, decimals, scale, unit, notes)


def ends(decimals: int, prefix: str = "", of: str = "") -> tuple[Column, Column]:
    """The columns of an interval; `of` tells in their heads of which score."""
    told = f" ({of})" if of else ""
    return Column(f"{prefix}low", f"Low{told}", decimals), Column(f"{prefix}high", f"High{told}", decimals)


def interval_note(clusters: str, questions: str) -> str:
    """What the columns `ends` hold, where whole clusters are drawn, such as videos with all of their questions."""
    return (
        f"Low to high: 95 % interval, percentiles of {RESAMPLES:,} bootstrap resamples of the {clusters}, each with "
        f"all of its {questions}. None without samples or for fewer than {FEWEST_CLUSTERS} {clusters}."
    )


def in_percent(share: float | None) -> float | None:
    """None stays None."""
    return None if share is None else 100 * share


def differing(values: Mapping[str, str | None], kind: Callable[[str], str] = str) -> str | None:
    """``run: value; run: value`` where runs differ; None where all values are of one kind. None is no value."""
    known = {name: value for name, value in values.items() if value is not None}
    is_one = len(set(map(kind, known.values()))) < 2
    return None if is_one else "; ".join(f"{name}: {value}" for name, value in known.items())


def _text(key: Key) -> str:
    return "\n".join(map(str, key))
