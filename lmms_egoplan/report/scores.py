"""A run's answers to questions, its scored tasks, and means over answers."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, TypeGuard

from lmms_egoplan.coverage import BY_COUNTS, OFFICIAL, RENDERED_SCENES, is_official
from lmms_egoplan.jsonl import member
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.ranking.chat_templates import NO_TEMPLATE, NOT_APPLIED
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.tables import share
from lmms_egoplan.stats.intervals import bootstrap_interval, score_interval
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.text import percent

Key = tuple[Hashable, ...]
"""The identity of a question: its id and further data, since other data may use the same ids."""
# Arguments of backends that change every prompt. A value may contain commas.
_PROMPT_ARGUMENTS = re.compile(r"\b(?:system|reasoning)_prompt=.*?(?=,\s*\w+=|$)", re.DOTALL)
NONE = "none"
"""A setting that a run does not have."""


@dataclass(frozen=True)
class Answer:
    """A run's answer to one question, with its scores.

    key: identity of the question.
    id: the question's id in its benchmark.
    name: the question's name in messages.
    record: the complete answer, in the benchmark's own form.
    scores: scores by measure; None if the answer has no score.
    cluster: unit of resampling for intervals, such as the question's video.
    groups: the question's group by attribute, such as ``setting``.
    doc: prepared row of the question, which only lm-eval logs.
    prompt: the prompt as sent, without images; None if the harness does not log it.
    asked: the prompt before the chat template; None if it was not logged.
    tokens: number of tokens of the prompt and of the answer; None if the harness does not count
    them.
    task: name and version of the task; the version is None if unknown.
    texts: texts that a judge rates, and their ratings in the unit of the main score, by part; ""
    for the whole answer.
    design: design of a compact run, see `benchmarks.subset.draw`; None for other runs.
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
    asked: str | None = None
    tokens: tuple[int, int] | None = None
    task: tuple[str, str | None] | None = None
    texts: Mapping[str, tuple[str, float | None]] = field(default_factory=dict)
    design: Mapping[str, Any] | None = None


Answers = Mapping[Key, Answer] | None
"""Answers by question; None without samples."""


@dataclass(frozen=True)
class ScoredTask(ABC):
    """A run's answers and scores in one task, or in the tasks that form a benchmark.

    name: name of the run, followed by the task's name unless that is the benchmark's main task.
    largest: the highest possible main score of an answer.
    """

    largest: ClassVar[float] = 100

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
        """The scored fraction of the official questions.

        If `is_official` is false, that of the prepared ones.

        None if unknown.
        """

    @property
    def task(self) -> str:
        """The name of the task, or of the tasks together."""
        return self.task_run.task

    @property
    def source(self) -> Run:
        """The results file that all answers come from; the run if they come from several."""
        return self.run.source(*(task_run.task for task_run in self.task_runs))

    @property
    def sources(self) -> tuple[Run, ...]:
        """The results files that the answers come from."""
        names = {task_run.task for task_run in self.task_runs}
        parts = [part for part in self.run.parts if names & part.tasks.keys()]
        return tuple(parts) or (self.run,)

    @property
    def question_set(self) -> str:
        """The name of the question set, see `coverage_fields`."""
        return self.text("question_set") or OFFICIAL

    @property
    def is_official(self) -> bool:
        """True if the questions are the benchmark's, all or some of them, as far as is known."""
        return is_official(self.question_set)

    @property
    def shortcut(self) -> str | None:
        """The condition of `SHORTCUTS` under which the questions were asked.

        None for the benchmark's own task.
        """
        return member(self.task_run.config, "metadata", "shortcut")

    @property
    def condition_of(self) -> str | None:
        """The benchmark's own task whose condition this task is; None for an own task."""
        return member(self.task_run.config, "metadata", "condition_of")

    @property
    def truncated(self) -> float | None:
        """The fraction of answers that reached the limit on new tokens; None if unknown."""
        return self.number("truncated")

    @property
    def asked(self) -> int | None:
        """The number of questions asked; None if unknown."""
        return self.count(self.task_run.scoring.count) if self.task_run.scoring else None

    @property
    def truncated_of(self) -> int | None:
        """The number of answers that `truncated` covers; None if it covers all.

        It does not if the length of some answers is unknown.
        """
        return self._fewer(self.count("truncated_of"), self.asked)

    @staticmethod
    def _fewer(known: int | None, asked: int | None) -> int | None:
        return known if known and asked and known < asked else None

    @property
    def truncated_text(self) -> str:
        """`truncated` for a terminal.

        With the number of answers that it covers, unless it covers all.
        """
        return share(self.truncated) + (f" of {self.truncated_of:,}" if self.truncated_of else "")

    @property
    def judge(self) -> str | None:
        """The judges of the answers, joined by commas."""
        judge = self.text("judge_model")
        return None if judge == "none" else judge

    @property
    def is_by_demo(self) -> bool:
        """True if the ratings are the demo judge's, which are meaningless."""
        return DEMO in (self.judge or "").split(", ")

    @property
    def is_scripted(self) -> bool:
        """True if any replies come from a file, by the demo's backend ``scripted``."""
        return any(run.provenance.get("backend") == "scripted" for run in self.sources)

    @property
    def is_demo(self) -> bool:
        """True if the scores are meaningless.

        They are for ratings of the demo judge, demo questions, or scripted replies.
        """
        return self.is_by_demo or self.is_scripted or RENDERED_SCENES in self.question_set

    @property
    def ranking_flaw(self) -> str | None:
        """The reason why the answers are not exact; None if they are.

        Inexact answers are not ranked or compared.
        """
        return None

    @property
    def objections(self) -> tuple[str, ...]:
        """The reasons why the main score is not comparable with published scores and other runs.

        Empty if it is comparable.

        A benchmark may prepend its own reasons, such as other data.
        """
        reasons = [self.ranking_flaw] if self.ranking_flaw else []
        reasons += [] if self.is_official else [self.question_set]
        reasons += ["rated by the demo judge"] if self.is_by_demo else []
        reasons += ["scripted replies"] if self.is_scripted else []
        reasons += [self.plain_text] if self.chat_template == NOT_APPLIED else []
        if self.coverage is None:
            reasons.append("coverage unknown")
        elif self.coverage < 1:
            covers = (
                f"{percent(self.coverage)} of the {'official' if self.is_official else 'prepared'} "
                "questions"
            )
            reasons.append(", ".join(filter(None, [self.task_run.subset, covers])))
        return tuple(reasons)

    @property
    def asked_of(self) -> str:
        """A remark on questions that are not the benchmark's, or not known to be.

        "" if they are.
        """
        if self.question_set == BY_COUNTS:
            return (
                f"{BY_COUNTS}: the file has the published numbers; nobody has compared its records."
            )
        if self.is_official:
            return ""
        return (
            f"coverage is the share of the prepared questions, not the benchmark's "
            f"({self.question_set})."
        )

    @property
    def chat_template(self) -> str | None:
        """The mark of a run without a chat template, `NO_TEMPLATE` or `NOT_APPLIED`.

        None for other runs.
        """
        mark = member(self.task_run.config, "metadata", "chat_template")
        return mark if mark in (NO_TEMPLATE, NOT_APPLIED) else None

    @property
    def plain_text(self) -> str:
        """The mark in words; "" for runs with a chat template."""
        return "no chat template" if self.chat_template else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the questions, on how they were asked, and on answers of unknown length.

        See `asked_of`.
        """
        has = "has one, but was" if self.chat_template == NOT_APPLIED else "has none and was"
        plain = (
            f"{self.plain_text}: the model {has} asked in plain text." if self.plain_text else ""
        )
        lengths = (
            (
                f"truncated: a share of {self.truncated_of:,} of {self.asked:,} answers, "
                "whose length is known."
            )
            if self.truncated_of
            else ""
        )
        return tuple(filter(None, (self.asked_of, plain, lengths)))

    @property
    def conditions(self) -> dict[str, str | None]:
        """The conditions that must be equal in two runs to compare their scores, by plural noun."""
        template = NOT_APPLIED if self.chat_template == NOT_APPLIED else None
        requested = member(self.source.record, "pixels", "requested") or {}
        budget = ", ".join(f"{name} {value:,}" for name, value in sorted(requested.items())) or None
        return {
            "tasks": self.task,
            "judges": self.judge,
            "chat templates": template,
            "pixel budgets": budget,
        }

    @property
    def settings(self) -> dict[str, str]:
        """Settings that must be equal in two runs to compare their scores, by plural noun.

        Only settings that both runs know count.
        """
        # the run that wrote the answers may have had any
        if any("judged answers" in run.provenance for run in self.sources):
            return {}
        instructions = []
        arguments = []
        for run in self.sources:
            instructions.append(run.provenance.get("system instruction", NONE))
            prompts = _PROMPT_ARGUMENTS.finditer(run.provenance.get("arguments", ""))
            arguments.append(", ".join(match[0] for match in prompts) or NONE)
        return {
            "system instructions": "; ".join(dict.fromkeys(instructions)),
            "prompts among the model arguments": "; ".join(dict.fromkeys(arguments)),
        }

    @property
    def task_runs(self) -> tuple[TaskRun, ...]:
        """The task, or the tasks that form it."""
        return (self.task_run,)

    @property
    def prompt_family(self) -> str | None:
        """The name of the prompts that the protocol has for the model.

        None if all models get the same prompts.
        """
        return None

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each task's prepared data, as far as it is known.

        lmms-eval logs it with the task, and lm-eval with each question.
        """
        logged = {
            task_run.task: member(task_run.config, "metadata", "data")
            for task_run in self.task_runs
        }
        for answer in (self.answers or {}).values():
            if answer.task is not None and logged.get(answer.task[0]) is None:
                logged[answer.task[0]] = member(answer.doc, "data")
        return {task: data for task, data in logged.items() if isinstance(data, str)}

    def number(self, metric: str) -> int | float | None:
        """Return the harness's own value of a metric or an entry of its details.

        None if it is NaN or missing.
        """
        return self.task_run.number(metric)

    def count(self, metric: str) -> int | None:
        """Return a metric that is a count; None if it is missing."""
        value = self.number(metric)
        return None if value is None else round(value)

    def percent(self, metric: str) -> float | None:
        """Return a metric that is a fraction, in per cent; None if it is missing."""
        return in_percent(self.number(metric))

    def text(self, metric: str) -> str | None:
        """Return a metric that is a text; None for other metrics."""
        value = self.task_run.metrics.get(metric)
        return value if isinstance(value, str) else None


def mean_of(
    answers: Sequence[Answer], measure: str, scale: float = 1.0, top: float | None = None
) -> Mean:
    """Average a measure over the answers that have it, and multiply by `scale` (100 for per cent).

    NaN and infinities count as missing.

    In a compact run, the mean of a score estimates that over all questions, and the interval is
    that of the estimate.

    Args:
        top: the highest possible value after scaling, if the measure is a score from 0 on; None for
            differences and other values without bounds.

    Raises:
        ValueError: a score is below 0 or above `top`.
    """
    values: list[float | None] = []
    for answer in answers:
        score = answer.scores[measure]
        values.append(scale * score if score is not None and is_score(score) else None)
    scored = [value for value in values if value is not None]
    if not scored:
        return Mean(questions=0, clusters=0)
    clusters = [str(answer.cluster) for answer in answers]
    pairs = zip(values, clusters, strict=True)
    number = len({cluster for value, cluster in pairs if value is not None})
    if top is None:
        return Mean(fmean(scored), bootstrap_interval(values, clusters), len(scored), number)
    design = answers[0].design
    interval = score_interval(values, clusters, top, design)
    return Mean(fmean(scored), interval, len(scored), number, drawn=len(scored) if design else None)


def is_score(value: float | None) -> TypeGuard[float]:
    """Return false for None, NaN and infinities, which count as missing."""
    return value is not None and math.isfinite(value)


def in_percent(share: float | None) -> float | None:
    """Multiply by 100; None stays None."""
    return None if share is None else 100 * share


def differing(values: Mapping[str, str | None], kind: Callable[[str], str] = str) -> str | None:
    """Format ``run: value; run: value`` if the runs' values are of several kinds; else return None.

    Ignore None.
    """
    present = {name: value for name, value in values.items() if value is not None}
    is_single = len(set(map(kind, present.values()))) < 2
    return None if is_single else "; ".join(f"{name}: {value}" for name, value in present.items())
