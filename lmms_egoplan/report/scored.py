"""Answers of runs, question by question, and their scores over some of these questions."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from typing import Any, TypeVar

from lmms_egoplan.coverage import OFFICIAL, RENDERED_SCENES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.report.document import Column
from lmms_egoplan.report.numbers import percent
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, RESAMPLES, bootstrap_interval
from lmms_egoplan.serialization import TextRecord

Key = tuple[Hashable, ...]
"""The identity of a question: its id and more, since other data may use the same ids."""

Record = TypeVar("Record", bound=TextRecord)
Task = TypeVar("Task", bound="ScoredTask")


@dataclass(frozen=True)
class Answer:
    """A run's answer to one question, with its scores.

    id: the question's in its benchmark.
    name: the question's, for messages.
    record: the whole answer, in the benchmark's own form.
    scores: by measure; None if the answer has none.
    cluster: the unit of resampling for intervals, such as the question's video.
    groups: the question's group by attribute, such as ``setting``.
    doc: the prepared row, which only lm-eval logs.
    prompt: as sent, without images; None if the harness does not log it.
    tokens: of the prompt and of the answer, as the harness counts them; None if it does not.
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


Answers = Mapping[Key, Answer] | None
"""By question; None without samples."""


@dataclass(frozen=True)
class Mean:
    """Mean of a measure over the questions that have it; None for unknown or missing values.

    interval: 95 %, of `bootstrap_interval`.
    clusters: number of clusters of the questions.
    """

    value: float | None = None
    interval: tuple[float, float] | None = None
    questions: int | None = None
    clusters: int | None = None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The ends of the interval."""
        return self.interval or (None, None)

    def cells(self, value: str, prefix: str = "", scale: float = 1) -> dict[str, float | None]:
        """Return value and interval by the keys of their columns, see `ends`."""
        numbers = (self.value, *self.ends)
        names = (value, f"{prefix}low", f"{prefix}high")
        return {name: None if x is None else scale * x for name, x in zip(names, numbers, strict=True)}


@dataclass(frozen=True)
class Scored(ABC):
    """A run's answers and scores in a benchmark.

    name: for tables.
    """

    name: str
    run: Run
    answers: Answers

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
        """Fraction of the official questions that were scored, of the prepared ones if `is_official` is false.

        None if unknown.
        """

    @property
    def question_set(self) -> str:
        """The name of the question set, see `covered`."""
        return OFFICIAL

    @property
    def is_official(self) -> bool:
        """True if the questions are the benchmark's, all of them or a part."""
        return self.question_set == OFFICIAL

    @property
    @abstractmethod
    def truncated(self) -> float | None:
        """Fraction of answers that the limit on new tokens ended; None if unknown."""

    @property
    def judge(self) -> str | None:
        """The judges of the answers, joined by commas."""
        return None

    @property
    def is_by_demo(self) -> bool:
        """True for meaningless ratings of the demo judge."""
        return DEMO in (self.judge or "").split(", ")

    @property
    def is_demo(self) -> bool:
        """True for meaningless scores: by the demo's judge, or of its questions."""
        return self.is_by_demo or RENDERED_SCENES in self.question_set

    @property
    def inexact(self) -> str | None:
        """Why the answers are not exact, so that no rank and no comparison uses them; None if they are."""
        return None

    @property
    def apart(self) -> tuple[str, ...]:
        """Why the main score is not comparable with published ones and other runs; empty if it is.

        A benchmark puts its own reasons, such as other data, before these.
        """
        reasons = [self.inexact] if self.inexact else []
        reasons += [] if self.is_official else [self.question_set]
        reasons += ["rated by the demo judge"] if self.is_by_demo else []
        if self.coverage is None:
            reasons.append("coverage unknown")
        elif self.coverage < 1:
            kind = "official" if self.is_official else "prepared"
            reasons.append(f"{percent(self.coverage)} of the {kind} questions")
        return tuple(reasons)

    @property
    def asked_of(self) -> str:
        """A sentence about questions that are not the benchmark's; "" if they are."""
        if self.is_official:
            return ""
        return f"not the benchmark's questions ({self.question_set}): coverage is the share of the prepared questions."

    @property
    def conditions(self) -> dict[str, str | None]:
        """Conditions that must be equal in two runs to compare their scores, by name in the plural."""
        return {"tasks": self.task, "judges": self.judge}


@dataclass(frozen=True)
class ScoredTask(Scored):
    """One task of a run.

    name: the run's, followed by the task's unless that is the benchmark's main task.
    """

    task_run: TaskRun

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.task_run.task

    @property
    def question_set(self) -> str:
        """The name of the question set, from the metrics."""
        return self.text("question_set") or OFFICIAL

    @property
    def truncated(self) -> float | None:
        """Fraction of answers that the limit on new tokens ended, from the metrics."""
        return self.number("truncated")

    def number(self, metric: str) -> int | float | None:
        """Return the harness's own value; None for NaN and missing ones."""
        return self.task_run.number(metric)

    def percent(self, metric: str) -> float | None:
        """Return a fraction in per cent."""
        return in_percent(self.number(metric))

    def text(self, metric: str) -> str | None:
        """Return a metric that is a text; None for others."""
        value = self.task_run.metrics.get(metric)
        return value if isinstance(value, str) else None

    @property
    def judge(self) -> str | None:
        """The judges of the answers, from the metrics."""
        judge = self.text("judge_model")
        return None if judge == "none" else judge


def read_tasks(
    make: Callable[[str, Run, Answers, TaskRun], Task],
    runs: Iterable[Run],
    files: Collection[str],
    main: str,
    read: Callable[[Mapping[str, Any]], Answer],
) -> Iterator[Task]:
    """Read each task that one of these files in ``tasks/shared`` scores.

    Args:
        make: a subclass of `ScoredTask`, or a function with the parameters of `ScoredTask`.
        main: the task whose name does not follow the run's.
        read: see `read_answers`.

    Raises:
        LmmsEgoplanError: see `read_answers`.
    """
    for run in runs:
        for task, task_run in run.tasks.items():
            if task_run.scoring and task_run.scoring.name in files:
                name = run.name if task == main else f"{run.name} ({task})"
                yield make(name, run, read_answers(run, task_run, read), task_run)


def read_answers(run: Run, task_run: TaskRun, read: Callable[[Mapping[str, Any]], Answer]) -> dict[Key, Answer] | None:
    """Read the answers in a task's samples; None without samples.

    Args:
        read: reads a logged line; raises a ValueError for lines of another form.

    Raises:
        LmmsEgoplanError: a sample has another form, or a question appears twice; names run, task and question.
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
            problem = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}; {changed}"
            raise LmmsEgoplanError(
                f"{where}: {problem}. Run again, or leave the samples out: {run.harness} --tasks {task_run.task} "
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
    """Read a scored answer that a run logged among other fields.

    Raises:
        ValueError: the fields are not those of the record.
    """
    names = {part.name for part in fields(kind)}
    return kind.from_text(json.dumps({name: value for name, value in values.items() if name in names}))


def mean_of(answers: Iterable[Answer], measure: str, scale: float = 1.0) -> Mean:
    """Average a measure over the answers that have it, multiplied by `scale`: 100 for per cent."""
    pairs = [(score, str(answer.cluster)) for answer in answers if (score := answer.scores[measure]) is not None]
    if not pairs:
        return Mean(questions=0, clusters=0)
    values, clusters = [scale * score for score, _ in pairs], [cluster for _, cluster in pairs]
    return Mean(fmean(values), bootstrap_interval(values, clusters), len(pairs), len(set(clusters)))


def ends(decimals: int, prefix: str = "", of: str = "") -> tuple[Column, Column]:
    """Return the columns of an interval; their headings name the score `of`."""
    score = f" ({of})" if of else ""
    return Column(f"{prefix}low", f"Low{score}", decimals), Column(f"{prefix}high", f"High{score}", decimals)


def interval_note(clusters: str, questions: str) -> str:
    """Explain the columns `ends` for resampled clusters, such as videos with all of their questions."""
    return (
        f"Low to high: 95 % interval, percentiles of {RESAMPLES:,} bootstrap resamples of the {clusters}, each with "
        f"all of its {questions}. None without samples or for fewer than {FEWEST_CLUSTERS} {clusters}."
    )


def in_percent(share: float | None) -> float | None:
    """Multiply by 100; None stays None."""
    return None if share is None else 100 * share


def differing(values: Mapping[str, str | None], kind: Callable[[str], str] = str) -> str | None:
    """Format ``run: value; run: value`` if runs differ; None if all values are of one kind. None is no value."""
    known = {name: value for name, value in values.items() if value is not None}
    is_one = len(set(map(kind, known.values()))) < 2
    return None if is_one else "; ".join(f"{name}: {value}" for name, value in known.items())
