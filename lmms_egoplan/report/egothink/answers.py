"""Read the answers of runs to EgoThink's questions, and combine their dimensions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import (
    BY_NAME,
    DIMENSION_NAMES,
    DIMENSIONS,
    Dimension,
    dimension_of,
)
from lmms_egoplan.benchmarks.egothink.metrics import average, score_answer
from lmms_egoplan.coverage import BY_COUNTS, OFFICIAL, is_official
from lmms_egoplan.jsonl import member, parse_record, read_lines
from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL
from lmms_egoplan.report.answers import judged_record, logged, read_answers
from lmms_egoplan.report.egothink.answer_files import prepared_rows, read_stored
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.samples import JudgedSample
from lmms_egoplan.report.scores import Answer, Key, ScoredTask, in_percent
from lmms_egoplan.report.tables import Value
from lmms_egoplan.stats.intervals import stratified_score_interval
from lmms_egoplan.stats.means import Mean

SINGLE = {dimension.name: (dimension,) for dimension in DIMENSIONS}


def _dimensions_by_capability() -> dict[str, tuple[Dimension, ...]]:
    by_capability: dict[str, tuple[Dimension, ...]] = {}
    for dimension in DIMENSIONS:
        others = by_capability.get(dimension.capability, ())
        by_capability[dimension.capability] = (*others, dimension)
    return by_capability


CAPABILITIES = _dimensions_by_capability()
_TASKS = {dimension.task: dimension.name for dimension in DIMENSIONS}


@dataclass(frozen=True, slots=True)
class DimensionScores:
    """One or more dimensions of a run.

    Attributes:
        mean: The `average` of the dimensions, 0..100; None unless every dimension has a score.
        questions: Number of questions asked.
        judged: Number of answers with a rating.
        official: Number of official questions in these dimensions. If the data are not official, of
            prepared questions.
        truncated: Fraction of answers that the limit on new tokens ended; None if unknown.
        suspect: Fraction of suspect answers; None without answers.
        judge: Names of the judges; None without any.
        prompts: Names of the prompt families; None without any.
    """

    mean: Mean
    questions: int
    judged: int
    official: int
    truncated: float | None
    suspect: float | None
    judge: str | None
    prompts: str | None

    @property
    def coverage(self) -> float:
        """Fraction of the official questions with a rating, at most 1."""
        return min(1.0, self.judged / self.official)

    def values(self) -> dict[str, Value]:
        """Return the cells by column."""
        shares = {
            "coverage": self.coverage,
            "judged": self.judged / self.questions if self.questions else None,
            "truncated": self.truncated,
            "suspect": self.suspect,
        }
        texts = {"judge": self.judge, "prompts": self.prompts}
        percent = {name: in_percent(share) for name, share in shares.items()}
        return self.mean.cells("score") | {"questions": self.questions} | texts | percent


@dataclass(frozen=True)
class EgoThinkTask(ScoredTask):
    """The EgoThink part of a run, with `task_run` for all tasks together.

    Attributes:
        answers: Answers of the tasks with samples, in the order of the dimensions.
        tasks: Task by dimension.
        left_out: Names of excluded tasks: their dimension is unknown or already in the run.
        dimensions: Dimensions of the main score.
        preset: Preset of the tasks; "" for none.
    """

    answers: Mapping[Key, Answer]
    tasks: Mapping[str, TaskRun]
    left_out: tuple[str, ...]
    dimensions: Sequence[Dimension] = DIMENSIONS
    preset: str = ""

    @property
    def main(self) -> Mean:
        """The `average` of the dimensions."""
        return self.whole.mean

    @property
    def coverage(self) -> float:
        """Fraction of the dimensions' questions with a rating."""
        return self.whole.coverage

    @property
    def truncated(self) -> float | None:
        """Fraction of answers of all dimensions that the limit on new tokens ended."""
        return self.whole.truncated

    @property
    def asked(self) -> int:
        """Number of questions asked in all dimensions."""
        return self.whole.questions

    @property
    def truncated_of(self) -> int | None:
        """Number of answers of all dimensions with a known length; None if it is known for all."""
        names = (dimension.name for dimension in self.dimensions if dimension.name in self.tasks)
        known = round(sum(self.tasks[name].number("truncated_of") or 0 for name in names))
        return self._fewer(known, self.asked)

    @property
    def judge(self) -> str | None:
        """Names of the judges of all dimensions."""
        return self.whole.judge

    @property
    def conditions(self) -> dict[str, str | None]:
        """Conditions for a comparison, including the judges' protocols.

        Earlier versions had only the default.
        """
        protocols = _joined(self.tasks.values(), "judge_protocol", ", ") or DEFAULT_PROTOCOL
        return super().conditions | {"judge's protocols": protocols}

    @property
    def task_runs(self) -> tuple[TaskRun, ...]:
        """The tasks of all dimensions."""
        return tuple(self.tasks.values())

    @property
    def prompt_family(self) -> str | None:
        """Names of the prompts of Tables 5 and 6 that the model got.

        None if they are unknown or a user's own.
        """
        names = self.whole.prompts
        if names is None or {"own", "unknown"} & set(re.split("[;,] ", names)):
            return None
        return names

    @property
    def ranking_flaw(self) -> str | None:
        """The number of failed judgements in the mean.

        The tests of pairs do not allow their scores of -100.
        """
        failed = sum(task_run.number("judge_failed") or 0 for task_run in self.tasks.values())
        return f"{failed} failed judgements count as -1" if failed else None

    @property
    def judged(self) -> dict[Key, JudgedAnswer]:
        """Answers with a rating."""
        return {
            key: answer.record
            for key, answer in self.answers.items()
            if answer.record.rating is not None
        }

    @property
    def question_set(self) -> str:
        """Question sets that are not official, joined.

        Without any, it is the least certain official name.
        """
        values = [task.metrics.get("question_set") for task in self.tasks.values()]
        names = {value for value in values if isinstance(value, str)}
        others = sorted(name for name in names if not is_official(name))
        if others:
            return "; ".join(others)
        return BY_COUNTS if BY_COUNTS in names else OFFICIAL

    @cached_property
    def whole(self) -> DimensionScores:
        """All dimensions of the main score."""
        return self.part(self.dimensions)

    def capabilities(self) -> "Iterator[EgoThinkTask]":
        """Yield a task for each capability, named like the harness's group.

        Capabilities with a missing dimension are skipped.
        """
        for name, dimensions in CAPABILITIES.items():
            tasks = {dimension.name: self.tasks.get(dimension.name) for dimension in dimensions}
            if None not in tasks.values():
                answers = {
                    key: answer
                    for key, answer in self.answers.items()
                    if dimension_of(answer.id) in tasks
                }
                group_name = _group_name(self.shortcut, self.preset, name)
                group = replace(self.task_run, task=group_name)
                yield replace(self, answers=answers, task_run=group, dimensions=dimensions)

    def part(self, dimensions: Sequence[Dimension]) -> DimensionScores:
        """Combine dimensions.

        The interval comes from samples, all other values from the harness's metrics.
        """
        tasks = [
            self.tasks[dimension.name] for dimension in dimensions if dimension.name in self.tasks
        ]
        asked = [task_run.metrics.get("num_questions") or 0 for task_run in tasks]
        counted = [task_run.metrics.get("truncated_of") or 0 for task_run in tasks]
        task_scores = [task_run.number("score") for task_run in tasks]
        scores = [score for score in task_scores if score is not None]
        samples: list[list[float]] = []
        for task_run in tasks:
            if task_run.samples is not None:
                values = [sample["score"] for sample in task_run.samples]
                samples.append([value["score"] for value in values if "score" in value])
        is_whole = len(scores) == len(dimensions)
        judged = round(_total(tasks, "judge_coverage", asked))
        rated = sum(map(len, samples)) if len(samples) == len(tasks) else None
        is_known = is_whole and len(samples) == len(tasks)
        interval = stratified_score_interval(samples, EgoThinkTask.largest) if is_known else None
        return DimensionScores(
            mean=Mean(average(scores) if is_whole else None, interval, judged, rated),
            questions=sum(asked),
            judged=judged,
            official=sum(map(self._whole, dimensions)),
            truncated=_total(tasks, "truncated", counted) / sum(counted) if sum(counted) else None,
            suspect=_total(tasks, "suspect", asked) / sum(asked) if sum(asked) else None,
            judge=_joined(tasks, "judge_model", ", "),
            prompts=_joined(tasks, "prompts", "; "),
        )

    def _whole(self, dimension: Dimension) -> int:
        task_run = None if self.is_official else self.tasks.get(dimension.name)
        return round((task_run and task_run.number("split_size")) or dimension.instances)


def judged_samples(path: Path) -> Iterator[JudgedSample]:
    """Implement `report.judged.judged_samples`.

    An answer that lacks a rating in any repeat counts as unrated.
    """
    stored = read_stored([path])
    for answer, row, (_, line) in zip(stored, prepared_rows(stored), read_lines(path), strict=True):
        record = parse_record(answer.where, line)
        if any(rated["rating"] is None for rated in record.get("repeats") or ()):
            record |= {"rating": None, "judge": None, "error": "not rated in every repeat"}
        judged = judged_record(JudgedAnswer, answer.where, record)
        task = BY_NAME[dimension_of(answer.id)].task
        sample = score_answer(row, [judged.to_text()]) | {"target": row["answer"]}
        yield JudgedSample(task, {}, sample)


def read_graded(run: Run) -> Iterator[EgoThinkTask]:
    """Read the EgoThink part of a run: all dimensions together.

    Those of each shortcut condition and of each preset are a part of their own.

    Raises:
        LmmsEgoplanError: See `read_answers`.
    """
    parts: dict[tuple[str | None, str], list[TaskRun]] = {}
    for task_run in run.tasks.values():
        if task_run.scoring and task_run.scoring.name == "egothink":
            shortcut = member(task_run.config, "metadata", "shortcut")
            parts.setdefault((shortcut, _preset(task_run)), []).append(task_run)
    for (shortcut, preset), egothink_tasks in parts.items():
        tasks: dict[str, TaskRun] = {}
        for task_run in sorted(egothink_tasks, key=lambda task_run: _name(task_run) not in _TASKS):
            tasks.setdefault(_dimension(task_run), task_run)
        tasks.pop("", None)
        answers: dict[Key, Answer] = {}
        for dimension in DIMENSION_NAMES:
            if dimension in tasks:
                answers |= read_answers(run, tasks[dimension], _answer) or {}
        used = {task_run.task for task_run in tasks.values()}
        left_out = tuple(task_run.task for task_run in egothink_tasks if task_run.task not in used)
        versions = sorted({task_run.version for task_run in egothink_tasks if task_run.version})
        group = _group_name(shortcut, preset)
        name = f"{run.name} ({shortcut})" if shortcut else run.name
        counts = [task_run.number("without_partner") for task_run in tasks.values()]
        skipped = [count for count in counts if count is not None]
        metrics = {"without_partner": sum(skipped)} if skipped else {}
        metadata = {
            "shortcut": shortcut,
            "condition_of": _group_name(None, preset) if shortcut else None,
            "chat_template": member(egothink_tasks[0].config, "metadata", "chat_template"),
        }
        together = TaskRun(group, metrics, {"metadata": metadata}, None, "/".join(versions) or None)
        yield EgoThinkTask(name, run, answers, together, tasks, left_out, preset=preset)


def _preset(task_run: TaskRun) -> str:
    """Return the preset of a task; "" for none."""
    return member(task_run.config, "metadata", "asked_as") or ""


def _group_name(shortcut: str | None, preset: str, capability: str = "") -> str:
    """Return the name of the group of all dimensions, or of those of a capability.

    >>> _group_name(None, ""), _group_name("blind", ""), _group_name(None, "", "object")
    ('egothink_bench', 'egothink_blind', 'egothink_bench_object')
    >>> _group_name(None, "official"), _group_name(None, "official", "object")
    ('egothink__official', 'egothink_bench_object__official')
    """
    if preset and not shortcut and not capability:
        return f"egothink__{preset}"
    name = f"egothink_{shortcut or 'bench'}"
    if capability:
        name += f"_{capability}"
    return f"{name}__{preset}" if preset else name


def _name(task_run: TaskRun) -> str:
    """Return the name of the dimension's own task, without shortcut condition and preset."""
    name = member(task_run.config, "metadata", "condition_of") or task_run.task
    return str(name).removesuffix(f"__{_preset(task_run)}")


def _dimension(task_run: TaskRun) -> str:
    """Return the dimension of a task, from its name or its questions; "" if unknown."""
    asked = {
        dimension_of(str(member(sample, DETAILS, "answer", "id")))
        for sample in task_run.samples or ()
    }
    name = _TASKS.get(_name(task_run)) or (asked.pop() if len(asked) == 1 else "")
    return name if name in DIMENSION_NAMES else ""


def _answer(sample: Mapping[str, Any]) -> Answer:
    judged = logged(JudgedAnswer, member(sample, DETAILS, "answer") or {})
    reference = sample.get("target")
    if not isinstance(reference, str) or dimension_of(judged.id) not in DIMENSION_NAMES:
        raise ValueError(f"{judged.id} is not a question of the benchmark, or has no reference")
    key = (judged.id, reference)
    scores = {"score": judged.score}
    # Questions are independent, so each is a separate cluster.
    cluster = "\n".join(key)
    # A failed judgement may count in the score, but is no rating.
    texts = {"": (judged.answer, None if judged.rating is None else judged.score)}
    return Answer(
        key,
        judged.id,
        f"question {judged.id}",
        judged,
        scores,
        cluster,
        doc=sample.get("doc"),
        texts=texts,
    )


def _joined(tasks: Iterable[TaskRun], metric: str, separator: str) -> str | None:
    """Join the distinct names of all tasks.

    None if there are none, as in runs of earlier versions.
    """
    values = [task_run.metrics.get(metric) for task_run in tasks]
    texts = [text for text in values if isinstance(text, str) and text not in ("", "none")]
    return (
        separator.join(sorted({name for text in texts for name in text.split(separator)})) or None
    )


def _total(tasks: Iterable[TaskRun], share: str, counts: Iterable[int]) -> float:
    """Convert the tasks' fractions to a total number of answers."""
    return sum(
        (task_run.number(share) or 0) * count for task_run, count in zip(tasks, counts, strict=True)
    )
