"""Scores of one or several dimensions of a run, with what they are over."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension
from lmms_egoplan.benchmarks.egothink.report.answers import Graded
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.report.document import Value
from lmms_egoplan.report.run import TaskRun
from lmms_egoplan.report.statistics import stratified_interval

DECIMALS = 1
SINGLE = {dimension.name: (dimension,) for dimension in DIMENSIONS}
CAPABILITIES = {
    capability: tuple(dimension for dimension in DIMENSIONS if dimension.capability == capability)
    for capability in dict.fromkeys(dimension.capability for dimension in DIMENSIONS)
}


@dataclass(frozen=True)
class Part:
    """One or several dimensions of a run.

    score: plain mean over the dimensions, 0..100; None unless each has a score.
    judged: answers with a rating.
    official: questions that the benchmark has in these dimensions.
    """

    score: float | None
    interval: tuple[float, float] | None
    questions: int
    judged: int
    official: int
    truncated: float | None
    suspect: float | None
    judge: str
    prompts: str

    @property
    def is_by_demo(self) -> bool:
        """Whether ratings are by the demo judge, and mean nothing."""
        return DEMO in self.judge.split(", ")

    @property
    def compares(self) -> bool:
        """Whether the score compares with the published ones: all official questions have a judge's rating."""
        return self.judged >= self.official and not self.is_by_demo

    def values(self) -> dict[str, Value]:
        """By column."""
        low, high = self.interval or (None, None)
        shares = {
            "coverage": self.judged / self.official,
            "judged": self.judged / self.questions if self.questions else None,
            "truncated": self.truncated,
            "suspect": self.suspect,
        }
        percent = {name: None if share is None else 100 * share for name, share in shares.items()}
        texts = {"judge": self.judge or None, "prompts": self.prompts or None}
        return {"low": low, "high": high, "questions": self.questions} | texts | percent


def part_of(run: Graded, dimensions: Sequence[Dimension]) -> Part:
    """What these dimensions add up to in a run; samples give the interval, the harness's metrics the rest."""
    tasks = [run.tasks[dimension.name] for dimension in dimensions if dimension.name in run.tasks]
    asked = [task_run.metrics.get("num_questions") or 0 for task_run in tasks]
    known = [task_run.metrics.get("truncated_of") or 0 for task_run in tasks]
    scores = [task_run.number("score") for task_run in tasks]
    samples = [
        [sample["score"]["score"] for sample in task_run.samples if "score" in sample["score"]]
        for task_run in tasks
        if task_run.samples is not None
    ]
    is_whole = len(tasks) == len(dimensions) and None not in scores
    return Part(
        score=fmean(scores) if is_whole else None,
        interval=stratified_interval(samples) if is_whole and len(samples) == len(tasks) else None,
        questions=sum(asked),
        judged=round(_total(tasks, "judge_coverage", asked)),
        official=sum(dimension.instances for dimension in dimensions),
        truncated=_total(tasks, "truncated", known) / sum(known) if sum(known) else None,
        suspect=_total(tasks, "suspect", asked) / sum(asked) if sum(asked) else None,
        judge=", ".join(sorted({judge for task_run in tasks for judge in _judge_names(task_run.metrics)})),
        prompts="; ".join(sorted({name for task_run in tasks for name in _prompt_names(task_run.metrics)})),
    )


def _judge_names(metrics: Mapping[str, Any]) -> list[str]:
    judges = metrics.get("judge_model") or "none"
    return [] if judges == "none" else judges.split(", ")


def _prompt_names(metrics: Mapping[str, Any]) -> list[str]:
    """None in runs of earlier versions, which do not tell."""
    prompts = metrics.get("prompts")
    return prompts.split("; ") if isinstance(prompts, str) else []


def _total(tasks: Iterable[TaskRun], share: str, counts: Iterable[int]) -> float:
    """Number of answers that the tasks' shares amount to."""
    return sum((task_run.number(share) or 0) * count for task_run, count in zip(tasks, counts, strict=True))
