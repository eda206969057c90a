"""Read the answers of runs to either benchmark's questions, and compute accuracies."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase
from typing import Any, ClassVar

from lmms_egoplan.benchmarks import splits
from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.egoplan.frame_settings import shown_frames
from lmms_egoplan.benchmarks.egoplan.metrics import DOMAIN_METRIC, SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import READY_CLIPS
from lmms_egoplan.jsonl import member
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.audits import RANKING, ranking_flaw
from lmms_egoplan.report.answers import read_tasks
from lmms_egoplan.report.egoplan.baselines import baseline_points
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.scores import Answer, Key, ScoredTask, in_percent, mean_of
from lmms_egoplan.report.tables import Value
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.storage import PreparedData
from lmms_egoplan.text import counted

CHANCE = 25.0
"""Per cent: one of four choices is right."""

NO_MODEL = "no model"
"""Name of the run of the baselines without a model."""

BLIND = "blind"
"""The condition under which the question is asked without the video."""

NARRATIONS = "narrations"
"""Metadata ``instead_of_video`` of the task that shows the narrations of the past actions."""

# The fields of a logged question that reports use. Reading its frames needs more.
_DOC_FIELDS = (
    "video_id",
    "video_source",
    "question",
    "choices",
    "answer",
    "task_goal",
    "past_actions",
    "media_path",
)


@dataclass(frozen=True)
class Questions:
    """The questions that a benchmark's scores cover.

    Attributes:
        prepared: The prepared data.
        split: Split of the prepared data.
        name: Name of the official file.
        main_task: The task whose name is not shown after the run's.
        id_of: Converts a logged sample id to the type in the prepared data.
        part_metrics: For each part of the questions, the metric that only its questions have.
    """

    prepared: PreparedData
    split: str
    name: str
    main_task: str
    id_of: Callable[[Any], Hashable]
    part_metrics: Mapping[str, str]

    @property
    def official(self) -> int:
        """Number of questions in the official file."""
        return self.prepared.official[self.split]


EGOPLAN = Questions(
    prepared=splits.EGOPLAN,
    split="val",
    name="EgoPlan-Val",
    main_task="egoplan_val",
    id_of=int,
    part_metrics=SOURCE_METRIC,
)
EGOPLAN_BENCH2 = Questions(
    prepared=splits.EGOPLAN_BENCH2,
    split="test",
    name="EgoPlan-Bench2",
    main_task="egoplan_bench2",
    id_of=str,
    part_metrics=DOMAIN_METRIC,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer to a question.

    Attributes:
        chosen: Index of the choice; None without a prediction, and for a capital after D, which
            some presets read.
        logprobs: Mean log-probability per token of each choice; None if the answer was written.
        text: The reply; None if the choices were ranked.
        sums: Log-probability of each choice, nats; None as for `logprobs`.
        part: The question's part, a key of `Questions.part_metrics`; None without a score.
    """

    chosen: int | None
    logprobs: tuple[float | None, ...] | None
    text: str | None
    part: str | None
    sums: tuple[float | None, ...] | None = None


@dataclass(frozen=True)
class Series(ScoredTask):
    """One task of a run.

    An answer's key consists of the annotation file's size, the sample id and the right letter. Its
    record is a `Choice`, its cluster the video. Its scores are 1 or 0: ``acc`` by the mean
    log-probability per token, ``acc_sum`` by the sum.

    Attributes:
        of: The benchmark's questions.
        model: The run's model; see `_models`.
    """

    largest: ClassVar[float] = 1

    of: Questions
    model: str = ""

    @property
    def is_ranked(self) -> bool:
        """True if choices were ranked by likelihood; false if a letter was written."""
        return member(self.task_run.config, "output_type") == "multiple_choice"

    @property
    def is_reasoned(self) -> bool:
        """True if a summary and a description came before the letter.

        A reply without a letter is then no answer.
        """
        return self.number("incomplete") is not None

    @property
    def is_main(self) -> bool:
        """True if choices were ranked after the video, as in the EgoPlan-Bench paper."""
        return self.is_ranked and self.without_video is None and self.shortcut is None

    @property
    def without_video(self) -> str | None:
        """The baseline without the video, `BLIND` or `NARRATIONS`; None for any other task."""
        if self.shortcut == BLIND:
            return BLIND
        return member(self.task_run.config, "metadata", "instead_of_video")

    @property
    def short_name(self) -> str:
        """The run's name, with a short task name unless it is the main task."""
        if self.task == self.of.main_task:
            return self.run.name
        return f"{self.run.name}, {self.short_task}"

    @property
    def short_task(self) -> str:
        """The task's name, without the name of the main task at its start."""
        return self.task.removeprefix(self.of.main_task).strip("_") or self.task

    @property
    def whole(self) -> float:
        """The number of questions that `coverage` refers to."""
        if self.is_official:
            return self.of.official
        return self.number("split_size") or self.of.official

    @cached_property
    def main(self) -> Mean:
        """The harness's accuracy in per cent, with the interval computed from the samples."""
        mean = self.mean_over(self.answers or ())
        clusters = mean.clusters if self.answers else None
        return replace(mean, value=self.percent("acc"), questions=self.questions, clusters=clusters)

    def mean_over(self, keys: Iterable[Key]) -> Mean:
        """Return the accuracy over these questions, in per cent."""
        answers = self.answers or {}
        return mean_of([answers[key] for key in keys], "acc", scale=100, top=100)

    def by_sum(self, keys: Iterable[Key]) -> float | None:
        """Return the accuracy by sum over these questions, in per cent.

        It is None if no question has one.
        """
        answers = self.answers or {}
        scores = [answers[key].scores["acc_sum"] for key in keys]
        percents = [100 * score for score in scores if score is not None]
        return fmean(percents) if percents else None

    @property
    def conditions(self) -> dict[str, str | None]:
        """Add the frames shown and, for written letters, the limit on new tokens."""
        return super().conditions | {"frames": self._frames_text, "new tokens": self._new_tokens}

    @property
    def _frames_text(self) -> str | None:
        """The frames shown, in words, and the public copy that they come from.

        None if the settings were not logged or no frames were shown.
        """
        config = self.task_run.config
        copy_suffix = f", {self._copy}" if self._copy else ""
        for settings in (config.get("lmms_eval_specific_kwargs"), config.get("metadata")):
            if not isinstance(settings, Mapping):
                continue
            if {"fps", "num_frames", "num_clips"} & settings.keys():
                return shown_frames(settings) + copy_suffix
            media = settings.get("media")
            if isinstance(media, str):
                return media + copy_suffix
        return None

    @property
    def _copy(self) -> str:
        """The public copy that the questions were shown from; "" for other media."""
        return "" if self.without_video else (self.text("media") or "").removeprefix(READY_CLIPS)

    @property
    def _new_tokens(self) -> str | None:
        limits = self.task_run.config.get("generation_kwargs")
        if self.is_ranked or not isinstance(limits, Mapping):
            return None
        limit = limits.get("max_new_tokens", limits.get("max_gen_toks"))
        if not isinstance(limit, int):
            return None
        # lmms-eval's vllm takes the larger of the task's limit and its own, which results may not
        # state.
        has_own_limit = (
            self.source.harness.startswith("lmms-eval")
            and self.source.provenance.get("backend") == "vllm"
        )
        return f"{limit:,} or more" if has_own_limit else f"up to {limit:,}"

    @property
    def questions(self) -> int | None:
        """The number of questions that the accuracy covers."""
        return self.count("predictions" if self.is_ranked or self.is_reasoned else "num_questions")

    @property
    def coverage(self) -> float | None:
        """Fraction of the official questions, see `Scored`."""
        return None if self.questions is None else min(1.0, self.questions / self.whole)

    @property
    def ranking_flaw(self) -> str | None:
        """The reason if an audit found a larger difference from full passes than the tolerance.

        Otherwise, it is None.
        """
        return ranking_flaw(self.ranking)

    @property
    def ranking(self) -> Mapping[str, Any]:
        """The summary of the ranking paths, see `summarize`; empty if choices were not ranked."""
        return self.task_run.metrics.get(RANKING) or {}

    @property
    def objections(self) -> tuple[str, ...]:
        """Reasons why the accuracy is not comparable with published ones.

        There are none for the complete official file.
        """
        reasons = []
        size = self.count("split_size")
        if size is None:
            reasons.append("an unknown annotation file")
        elif size != self.of.official:
            reasons.append(f"an annotation file of {counted(size, 'questions')}")
        if self._copy:
            reasons.append(f"media of {self._copy}")
        return (*reasons, *super().objections)

    def counts(self) -> dict[str, Value]:
        """Return interval and counts, by column key."""
        low, high = self.main.ends
        return {
            "low": low,
            "high": high,
            "questions": self.questions,
            "coverage": in_percent(self.coverage),
        }


def read_series(runs: Sequence[Run], of: Questions) -> list[Series]:
    """Read a benchmark's tasks, run by run: the main task first, tasks without images last.

    Raises:
        LmmsEgoplanError: See `read_answers`.
    """
    read = partial(read_choice, of=of)
    series = list(
        read_tasks(partial(Series, of=of), runs, of.prepared.benchmark, of.main_task, read)
    )
    models = _models({task.run.name: task.run.model for task in series})
    labelled = [replace(task, model=models[task.run.name]) for task in series]
    order = list(models)

    def position(task: Series) -> tuple[int, bool, bool]:
        return order.index(task.run.name), task.task != of.main_task, task.without_video is not None

    return sorted(labelled, key=position)


def baseline_series(docs: Mapping[Key, Doc], series: Sequence[Series]) -> Iterator[Series]:
    """Yield the baselines of `baseline_points` as the tasks of a run.

    Args:
        docs: The questions that were asked and are available.
        series: Tasks with these questions, at least one.
    """
    if not docs:
        return
    of = series[0].of
    logged = series[0].task_run.metrics
    run = Run(NO_MODEL, Path(), "", "", "", {})
    for name, points in baseline_points([*docs.values()]).items():
        answers = {}
        scores: dict[str, list[float]] = {"acc": points}
        for (key, doc), score in zip(docs.items(), points, strict=True):
            answers[key] = Answer(
                key, "", name, None, {"acc": score, "acc_sum": None}, doc["video_id"]
            )
            part = doc.get("domain") or doc["video_source"]
            scores.setdefault(of.part_metrics[part], []).append(score)
        metrics: dict[str, Any] = {
            metric: fmean(metric_scores) for metric, metric_scores in scores.items()
        }
        metrics["num_questions"] = len(points)
        for metric in ("split_size", "question_set"):
            if metric in logged:
                metrics[metric] = logged[metric]
        task_run = TaskRun(name, metrics, {}, None)
        yield Series(f"{NO_MODEL} ({name})", run, answers, task_run, of)


def _models(names: Mapping[str, str]) -> dict[str, str]:
    """Return each run's model. If one harness logs a path and the other only its end, use the path.

    Args:
        names: The logged model of each run.
    """
    models = {}
    for run, model in names.items():
        paths = {name for name in names.values() if name.endswith(f"/{model}")}
        models[run] = paths.pop() if len(paths) == 1 else model
    return models


def read_choice(sample: Mapping[str, Any], of: Questions) -> Answer:
    """Read the answer in a logged line.

    Raises:
        ValueError: The line does not have the form that the tasks log.
    """
    details = sample[DETAILS]
    predicted = details["predictions"]
    split_size = int(details["split_size"])
    sample_id = of.id_of(predicted["sample_id"])
    gold = str(sample["target"])
    letter = predicted["prediction"]
    if gold not in [*LETTERS] or letter not in [None, *ascii_uppercase]:
        raise ValueError(
            f"target must be a letter of {LETTERS}, prediction a capital; got {gold}, {letter}"
        )
    ranked = predicted.get("choices")
    if ranked is not None and len(ranked) != len(LETTERS):
        raise ValueError(f"expected {len(LETTERS)} choices, got {len(ranked)}")
    doc = sample.get("doc")
    if doc is not None:
        missing_fields = [name for name in _DOC_FIELDS if name not in doc]
        if missing_fields:
            raise ValueError(f"the logged question has no {', '.join(missing_fields)}")
    choice = Choice(
        chosen=LETTERS.index(letter) if letter in [*LETTERS] else None,
        logprobs=None if ranked is None else tuple(_logprob(choice) for choice in ranked),
        text=_reply(sample) if ranked is None else None,
        sums=None if ranked is None else tuple(choice.get("logprob") for choice in ranked),
        part=_part(sample, of),
    )
    scored = sample.get("acc")
    return Answer(
        (split_size, sample_id, gold),
        str(sample_id),
        f"question {sample_id}",
        choice,
        {metric: _score(sample.get(metric)) for metric in ("acc", "acc_sum")},
        scored and str(scored["cluster"]),
        doc=doc,
    )


def _logprob(choice: Mapping[str, Any]) -> float | None:
    """Return the mean log-probability per token of a logged choice."""
    return None if choice["loss"] is None else -choice["loss"]


def _part(sample: Mapping[str, Any], of: Questions) -> str | None:
    """Return the question's part; None without a score."""
    for part, metric in of.part_metrics.items():
        if metric in sample:
            return part
    return None


def _score(record: Mapping[str, Any] | None) -> float | None:
    """Return the score.

    It is None if the question could not be scored, or the backend has no such score.
    """
    if record is None:
        return None
    if record["score"] not in (0, 1):
        raise ValueError(f"a score must be 0 or 1, got {record['score']}")
    return float(record["score"])


def _reply(sample: Mapping[str, Any]) -> str:
    """Return the text of a reply. lm-eval logs it in a list of one."""
    reply = sample.get("filtered_resps", "")
    if isinstance(reply, list) and reply:
        return str(reply[0])
    return str(reply or "")


@dataclass(frozen=True, slots=True)
class GroupAccuracy:
    """A series' accuracies over one group of questions, per cent."""

    series: Series
    acc: Mean
    acc_sum: float | None


Groups = Mapping[str, Sequence[GroupAccuracy]]
"""The series that have questions in a group, by group."""


def grouped(
    series: Sequence[Series], groups: Mapping[Key, str | None], names: Iterable[str]
) -> dict[str, list[GroupAccuracy]]:
    """Return the series' accuracies by group, in the order of `names`.

    Groups without a question are skipped.

    Args:
        groups: The group of each question.
    """
    parts: dict[str, list[GroupAccuracy]] = {}
    for name in names:
        group_parts = []
        for task in series:
            keys = [key for key in task.answers or () if groups.get(key) == name]
            if keys:
                group_parts.append(GroupAccuracy(task, task.mean_over(keys), task.by_sum(keys)))
        if group_parts:
            parts[name] = group_parts
    return parts
