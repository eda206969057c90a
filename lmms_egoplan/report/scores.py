"""Scores of runs: recomputed from samples, and answers question by question with their means."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pkgutil import resolve_name
from statistics import fmean
from typing import Any, TypeVar

from pydantic import ValidationError

from lmms_egoplan.coverage import OFFICIAL, RENDERED_SCENES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.report.run import Run, TaskRun, package_versions
from lmms_egoplan.report.statistics import bootstrap_interval
from lmms_egoplan.report.tables import percent
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import listing, shown, validate

Key = tuple[Hashable, ...]
"""The identity of a question: its id and more, since other data may use the same ids."""

Record = TypeVar("Record", bound=TextRecord)
Task = TypeVar("Task", bound="ScoredTask")
# Sums of floats in another order differ in the last digits.
_TOLERANCE = 1e-9


def recompute(task_run: TaskRun) -> dict[str, Any]:
    """Compute the task's metrics from its samples; omit those without a value, as the harness does.

    Raises:
        LmmsEgoplanError: the values in the samples are not those of the task.
    """
    metrics = {}
    for metric, name in (task_run.scoring.metrics if task_run.scoring else {}).items():
        values = [sample[metric] for sample in task_run.samples or () if metric in sample]
        if values:
            try:
                metrics[metric] = resolve_name(name)(values)
            except LmmsEgoplanError as error:
                raise LmmsEgoplanError(f"samples of {task_run.task}: {metric}: {error}") from error
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise LmmsEgoplanError(
                    f"samples of {task_run.task}: {metric} cannot be computed: {type(error).__name__}: {error}; were "
                    "they written by another version, or changed? Run again, or leave the samples out"
                ) from error
    return metrics


def check(run: Run, task_run: TaskRun) -> None:
    """Compare the harness's own scores with those from the samples, if there are samples.

    Numbers may differ by 1e-9 of their size; NaN equals NaN.

    Raises:
        LmmsEgoplanError: they differ, or only one has a metric; names the run's folder, the task and the first 20
            metrics with both values, the number of questions first.
    """
    names = list(task_run.scoring.metrics if task_run.scoring else ())
    if task_run.samples is None or not names:
        return
    recomputed = recompute(task_run)
    differences = [
        difference
        for metric in (names[-1], *names[:-1])
        for difference in _differences(metric, task_run.metrics.get(metric), recomputed.get(metric))
    ]
    if differences:
        raise LmmsEgoplanError(
            f"{run.folder}, run {run.name}, task {task_run.task}: the scores are not those of the "
            f"{len(task_run.samples)} samples:\n{listing(differences)}\n"
            "The file of samples is not whole, not of this run, or another version wrote it (the task's is "
            f"{task_run.version or 'unknown'}, here {package_versions().get(task_run.task, 'unknown')}): run again, or "
            f"move it away: {run.harness} --tasks {task_run.task} --model ... --output_path DIR --log_samples"
        )


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
class ScoredTask(ABC):
    """A run's answers and scores in one task, or in the tasks that make up a benchmark.

    name: the run's, followed by the task's unless that is the benchmark's main task.
    """

    name: str
    run: Run
    answers: Answers
    task_run: TaskRun

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
    def task(self) -> str:
        """The name of the task, or of the tasks together."""
        return self.task_run.task

    @property
    def gallery(self) -> str:
        """The name of its answers in the gallery."""
        return self.name

    @property
    def question_set(self) -> str:
        """The name of the question set, see `covered`."""
        return self.text("question_set") or OFFICIAL

    @property
    def is_official(self) -> bool:
        """True if the questions are the benchmark's, all of them or a part."""
        return self.question_set == OFFICIAL

    @property
    def truncated(self) -> float | None:
        """Fraction of answers that the limit on new tokens ended; None if unknown."""
        return self.number("truncated")

    @property
    def judge(self) -> str | None:
        """The judges of the answers, joined by commas."""
        judge = self.text("judge_model")
        return None if judge == "none" else judge

    @property
    def is_by_demo(self) -> bool:
        """True for meaningless ratings of the demo judge."""
        return DEMO in (self.judge or "").split(", ")

    @property
    def is_scripted(self) -> bool:
        """True for replies out of a file: the backend ``scripted`` of the demo."""
        return self.run.provenance.get("backend") == "scripted"

    @property
    def is_demo(self) -> bool:
        """True for meaningless scores: by the demo's judge, of its questions, or of scripted replies."""
        return self.is_by_demo or self.is_scripted or RENDERED_SCENES in self.question_set

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
        reasons += ["scripted replies"] if self.is_scripted else []
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

    def number(self, metric: str) -> int | float | None:
        """Return the harness's own value; None for NaN and missing ones."""
        return self.task_run.number(metric)

    def count(self, metric: str) -> int | None:
        """Return a value that counts."""
        value = self.number(metric)
        return None if value is None else round(value)

    def percent(self, metric: str) -> float | None:
        """Return a fraction in per cent."""
        return in_percent(self.number(metric))

    def text(self, metric: str) -> str | None:
        """Return a metric that is a text; None for others."""
        value = self.task_run.metrics.get(metric)
        return value if isinstance(value, str) else None


def read_tasks(
    kind: Callable[..., Task],
    runs: Iterable[Run],
    benchmark: str,
    main: str,
    read: Callable[[Mapping[str, Any]], Answer],
) -> Iterator[Task]:
    """Read each task of a benchmark.

    Args:
        kind: a subclass of `ScoredTask`; gets that class's fields by name.
        main: the task whose name does not follow the run's.
        read: see `read_answers`.

    Raises:
        LmmsEgoplanError: see `read_answers`.
    """
    for run in runs:
        for task, task_run in run.tasks.items():
            if task_run.scoring and task_run.scoring.benchmark == benchmark:
                name = run.name if task == main else f"{run.name} ({task})"
                yield kind(name=name, run=run, answers=read_answers(run, task_run, read), task_run=task_run)


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
    named = {name: value for name, value in values.items() if name in names}
    try:
        return validate(kind, named)
    except ValidationError:
        return kind.from_text(json.dumps(named))  # its error says what is wrong


def judged_record(kind: type[Record], where: str, record: dict[str, Any]) -> Record:
    """Read a judged answer whose fields are among others.

    Raises:
        LmmsEgoplanError: it is something else.
    """
    try:
        return logged(kind, record)
    except ValueError as error:
        raise LmmsEgoplanError(f"{where}: {error}; was the file changed? Judge the answers again") from error


def mean_of(answers: Iterable[Answer], measure: str, scale: float = 1.0) -> Mean:
    """Average a measure over the answers that have it, multiplied by `scale`: 100 for per cent."""
    pairs = [(score, str(answer.cluster)) for answer in answers if (score := answer.scores[measure]) is not None]
    if not pairs:
        return Mean(questions=0, clusters=0)
    values, clusters = [scale * score for score, _ in pairs], [cluster for _, cluster in pairs]
    return Mean(fmean(values), bootstrap_interval(values, clusters), len(pairs), len(set(clusters)))


def in_percent(share: float | None) -> float | None:
    """Multiply by 100; None stays None."""
    return None if share is None else 100 * share


def differing(values: Mapping[str, str | None], kind: Callable[[str], str] = str) -> str | None:
    """Format ``run: value; run: value`` if runs differ; None if all values are of one kind. None is no value."""
    known = {name: value for name, value in values.items() if value is not None}
    is_one = len(set(map(kind, known.values()))) < 2
    return None if is_one else "; ".join(f"{name}: {value}" for name, value in known.items())


def _differences(name: str, logged: Any, recomputed: Any) -> Iterator[str]:
    """Describe differences between the harness's value and that from the samples; None for missing ones."""
    if isinstance(logged, dict) and isinstance(recomputed, dict):
        for key in logged | recomputed:
            yield from _differences(f"{name} of {key}", logged.get(key), recomputed.get(key))
    elif not _equal(logged, recomputed):
        yield f"{name}: {shown(logged)} in the results, {shown(recomputed)} from the samples"


def _equal(logged: Any, recomputed: Any) -> bool:
    if recomputed is None and isinstance(logged, float) and math.isnan(logged):
        return True  # Without samples, lm-eval on several processes logs NaN.
    if isinstance(logged, (int, float)) and isinstance(recomputed, (int, float)):
        both_nan = math.isnan(logged) and math.isnan(recomputed)
        return both_nan or math.isclose(logged, recomputed, rel_tol=_TOLERANCE)
    return logged == recomputed
