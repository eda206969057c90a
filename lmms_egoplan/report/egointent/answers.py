"""Read the answers of runs to EgoIntent's steps, with their ratings."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.egointent.judge import GradedStep
from lmms_egoplan.benchmarks.egointent.prepare import PAPER
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, GOALSTEP_STEPS
from lmms_egoplan.jsonl import member, parse_record, read_lines
from lmms_egoplan.report.answers import judged_record, logged, read_tasks
from lmms_egoplan.report.egointent.answer_files import KINDS, TASK, read_stored, rows_of
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.samples import JudgedSample
from lmms_egoplan.report.scores import Answer, ScoredTask, in_percent
from lmms_egoplan.report.tables import Value
from lmms_egoplan.stats.intervals import score_interval_of_sums
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.text import counted
from lmms_egoplan.validation import AnyText, Checked, Seconds, read_as

OFFICIAL = PAPER["steps"]
# The metric for each column with a fraction.
SHARES = {
    name: name for name in ("coverage", "parsed", "judged", "truncated", "unverified", "suspect")
}
SHARES["judged"] = "judge_coverage"
SCORES = ("overall", *FIELDS, *ENVIRONMENTS)


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One step of a run.

    Attributes:
        graded: The answer and its ratings.
        unverified: True if nobody has verified the references.
        is_goalstep: True for a Goal-Step step.
    """

    graded: GradedStep
    unverified: bool
    is_goalstep: bool


class _LoggedDoc(Checked):
    """The fields of a step logged by lm-eval that the report uses."""

    local_intent: AnyText
    global_intent: AnyText
    next_step_plan: AnyText
    video_path: AnyText
    start_sec: Seconds
    end_sec: Seconds


@dataclass(frozen=True)
class EgoIntentTask(ScoredTask):
    """One task of a run. For Goal-Step steps, its name ends with `GOALSTEP_STEPS` in brackets.

    An answer's key is the step's id and video, its record a `LoggedStep`, and its cluster the
    video. Its groups are ``environment`` and ``group``: the step's scenario, or the category of the
    goal for a Goal-Step step.
    """

    @property
    def is_goalstep(self) -> bool:
        """True for Goal-Step steps; without samples, inferred from the scores."""
        if self.answers:
            return any(answer.record.is_goalstep for answer in self.answers.values())
        return isinstance(self.task_run.metrics.get("category"), Mapping)

    @property
    def is_release(self) -> bool:
        """True for version 2 of the task: fields have the names of the release of August 2026."""
        return self.task_run.scoring is not None and self.task_run.scoring.name == TASK

    def number(self, metric: str) -> float | None:
        """Return a metric; a field's metric may have the paper's or the release's name."""
        value = super().number(metric)
        if value is None and metric in RELEASE_NAMES:
            return super().number(RELEASE_NAMES[metric])
        return value

    @property
    def main(self) -> Mean:
        """The overall score over these steps."""
        return replace(self.means["overall"], questions=self.count("num_steps"))

    @property
    def question_set(self) -> str:
        """Question set of the results; `GOALSTEP_STEPS` for Goal-Step steps."""
        return GOALSTEP_STEPS if self.is_goalstep else super().question_set

    @property
    def coverage(self) -> float | None:
        """The fraction of the steps that the score covers, without the unjudged fields."""
        asked = self.count("num_steps")
        total = OFFICIAL if self.is_official else self.count("split_size")
        if asked is None or total is None:
            return None
        parsed = self.number("parsed") or 0
        unjudged = parsed * (1 - (self.number("judge_coverage") or 0))
        return min(1.0, asked / total) * (1 - unjudged)

    @property
    def objections(self) -> tuple[str, ...]:
        """Reasons why the scores are not comparable with published ones."""
        size = self.count("split_size")
        if size is None or size == OFFICIAL or self.is_goalstep:
            return tuple(super().objections)
        return (f"an annotation file of {counted(size, 'steps')}", *super().objections)

    @property
    def prompts(self) -> tuple[str | None, str | None]:
        """Versions of the prompt and of the judge's prompt.

        The latter has a remark if one request rates all fields.
        """
        metadata = self.task_run.config.get("metadata")
        versions = metadata if isinstance(metadata, dict) else {}
        prompt = _text_or_none(versions.get("prompt"))
        judge_prompt = _text_or_none(versions.get("judge_prompt"))
        if '"together": true' in json.dumps(self.task_run.config.get("filter_list")):
            judge_prompt = f"{judge_prompt or 'unknown'} with all fields in one request"
        return prompt, judge_prompt

    @property
    def conditions(self) -> dict[str, str | None]:
        """Conditions for a comparison, including the prompts and the kind of steps."""
        prompt, judge_prompt = self.prompts
        step_set = "Goal-Step" if self.is_goalstep else None
        return super().conditions | {
            "prompts": prompt,
            "judge's prompts": judge_prompt,
            "step sets": step_set,
        }

    @property
    def settings(self) -> dict[str, str]:
        """Add the maximum number of frames."""
        settings = super().settings
        for name in ("lmms_eval_specific_kwargs", "metadata"):
            max_frames = member(self.task_run.config.get(name), "max_frames")
            if isinstance(max_frames, int):
                return settings | {"frames": f"up to {max_frames}"}
        return settings

    @cached_property
    def means(self) -> dict[str, Mean]:
        """The scores, with the number of their steps and videos."""
        return {name: self._mean(name) for name in SCORES}

    def _mean(self, name: str) -> Mean:
        if self.answers is None:
            return Mean(self.number(name))
        steps = self.steps_of(name)
        interval = _interval(steps, fields_of(name))
        clusters = len({step.cluster for step in steps})
        return Mean(self.number(name), interval, len(steps), clusters, _drawn(steps))

    def steps_of(self, name: str) -> list[Answer]:
        """List the steps that a score is about."""
        steps = (self.answers or {}).values()
        return [
            step for step in steps if name not in ENVIRONMENTS or step.groups["environment"] == name
        ]

    def shares(self) -> dict[str, Value]:
        """Return the cells next to the scores.

        They are steps, judge, prompts, media and fractions in per cent.
        """
        percent = {name: self.percent(metric) for name, metric in SHARES.items()}
        percent["coverage"] = in_percent(self.coverage)
        prompts = ", ".join(version or "unknown" for version in self.prompts)
        texts = {"judge": self.judge, "prompts": prompts, "media": self.text("media")}
        return {"questions": self.count("num_steps"), **texts, **percent}


def judged_samples(path: Path) -> Iterator[JudgedSample]:
    """Yield the judged steps of a file; see `report.judged.judged_samples`."""
    stored = read_stored([path])
    for step, row, (_, line) in zip(stored, rows_of(stored), read_lines(path), strict=True):
        record = parse_record(step.where, line)
        _, score = KINDS[step.kind]
        graded = judged_record(GradedStep, step.where, record)
        config = {"metadata": {"judge_prompt": record.get("judge_prompt")}}
        yield JudgedSample(step.kind, config, score(row, [graded.to_text()]))


def read_graded(runs: Iterable[Run]) -> Iterator[EgoIntentTask]:
    """Read the task and its variants in runs.

    Raises:
        LmmsEgoplanError: See `read_tasks`.
    """
    for task in read_tasks(EgoIntentTask, runs, TASK, TASK, _answer):
        yield replace(task, name=f"{task.name} ({GOALSTEP_STEPS})") if task.is_goalstep else task


def fields_of(name: str) -> Sequence[str]:
    """Return the fields that a score is about."""
    return (name,) if name in FIELDS else FIELDS


def overall_of(steps: Sequence[Answer]) -> Mean:
    """Return the overall score over some steps, as in `metrics`.

    It is None if a field was found but never judged.
    """
    if not steps:
        return Mean(questions=0, clusters=0)
    clusters = len({step.cluster for step in steps})
    value = overall_score(steps)
    if math.isnan(value):
        return Mean(None, None, len(steps), clusters, _drawn(steps))
    return Mean(value, _interval(steps, FIELDS), len(steps), clusters, _drawn(steps))


def overall_score(steps: Sequence[Answer]) -> float:
    """Return the value of `overall_of`; NaN instead of None."""
    if not steps:
        return math.nan
    return float(_score(_counts(steps, FIELDS).sum(axis=0)))


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _answer(sample: Mapping[str, Any]) -> Answer:
    values = member(sample, DETAILS, "step") or {}
    doc = sample.get("doc")
    graded = logged(GradedStep, values)
    unverified = member(sample, "unverified", "score") == 1
    is_goalstep = values.get("scenario") is None and values.get("category") is not None
    names = ("video_id", "category" if is_goalstep else "scenario", "environment")
    groups = [values.get(name) for name in names]
    if not all(isinstance(group, str) for group in groups):
        raise ValueError(f"step {graded.step_id}: {', '.join(names)} must be texts, got {groups}")
    video, group, environment = map(str, groups)
    if doc is not None:
        read_as(_LoggedDoc, f"step {graded.step_id}: the logged step", doc)
    ratings = [rating for rating in graded.ratings.values() if rating is not None]
    return Answer(
        key=(graded.step_id, video),
        id=graded.step_id,
        name=f"step {graded.step_id} of video {video}",
        record=LoggedStep(graded, unverified, is_goalstep),
        scores={"overall": fmean(ratings) if len(ratings) == len(FIELDS) else None},
        cluster=video,
        groups={"group": group, "environment": environment},
        doc=doc,
        texts={field: (text, graded.ratings[field]) for field, text in graded.fields.items()},
    )


def _interval(steps: Sequence[Answer], names: Sequence[str]) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean of the fields' scores over videos.

    In a compact run, steps with a field that was found but not judged count as not asked.
    """
    clusters = [step.cluster or "" for step in steps]
    counts = _counts(steps, names)
    design = steps[0].design if steps else None
    if design:
        is_judged = (counts[..., 1] == counts[..., 2]).all(axis=1)
        design = {**design, "asked": design["asked"] * float(is_judged.mean())}
    return score_interval_of_sums(counts, clusters, _score, EgoIntentTask.largest, design)


def _drawn(steps: Sequence[Answer]) -> int | None:
    """Return the number of steps of a compact run; None for other runs."""
    return len(steps) if steps and steps[0].design else None


def _counts(steps: Sequence[Answer], names: Sequence[str]) -> np.ndarray:
    """Return, for each step and field, the counts of `_count`; shape (steps, fields, 4)."""
    counts: list[list[tuple[int, bool, bool, float]]] = []
    for step in steps:
        counts.append([_count(step, field) for field in names])
    return np.array(counts, dtype=float)


def _score(counts: np.ndarray) -> np.ndarray:
    """Return the mean of the fields' scores from sums of `_counts`.

    It is NaN if a field was found but never judged.
    """
    asked, num_found, judged, total = np.moveaxis(counts, -1, 0)
    scores = (num_found / asked * total / np.maximum(judged, 1)).mean(axis=-1)
    return np.where(((judged == 0) & (num_found > 0)).any(axis=-1), math.nan, scores)


def _count(step: Answer, field: str) -> tuple[int, bool, bool, float]:
    """Return 1, true for a found field, true for a judged field, and the rating."""
    _, rating = step.texts.get(field, ("", None))
    return 1, field in step.texts, rating is not None, rating or 0.0
