"""Read the answers of runs to either benchmark's questions, and compute accuracies."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase
from typing import Any, ClassVar, NamedTuple

from lmms_egoplan.benchmarks import splits
from lmms_egoplan.benchmarks.egoplan.clips import READY_CLIPS
from lmms_egoplan.benchmarks.egoplan.metrics import DOMAIN_METRIC, SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.visuals import shown_frames
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.audits import METRICS, inexact
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.scores import (
    Answer,
    Key,
    Mean,
    ScoredTask,
    in_percent,
    mean_of,
    read_tasks,
)
from lmms_egoplan.report.tables import Value, counted
from lmms_egoplan.storage import PreparedData

CHANCE = 25.0
"""Per cent: one of four choices is right."""

NO_MODEL = "no model"
"""Name of the run of the baselines without a model."""

_UNSEEN = ("_blind", "_narrated")
"""Suffixes of the names of tasks without images."""

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


class Questions(NamedTuple):
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


EGOPLAN = Questions(splits.EGOPLAN, "val", "EgoPlan-Val", "egoplan_val", int, SOURCE_METRIC)
EGOPLAN_BENCH2 = Questions(
    splits.EGOPLAN_BENCH2, "test", "EgoPlan-Bench2", "egoplan_bench2", str, DOMAIN_METRIC
)


class Choice(NamedTuple):
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
        look: Number of the colour and marker in figures.
        is_only: True if no other task of the run has answers.
    """

    largest: ClassVar[float] = 1

    of: Questions
    model: str = ""
    look: int = 0
    is_only: bool = True

    @property
    def gallery(self) -> str:
        """The run's name, with the task's name if several tasks of the run have answers."""
        return self.run.name if self.is_only else f"{self.run.name} ({self.task})"

    @property
    def is_ranked(self) -> bool:
        """True if choices were ranked by likelihood; false if a letter was written."""
        return self.task_run.scoring is not None and self.task_run.scoring.name.endswith("_ranking")

    @property
    def is_reasoned(self) -> bool:
        """True if a summary and a description came before the letter; a reply without a letter is
        then no answer.
        """
        return self.number("incomplete") is not None

    @property
    def is_main(self) -> bool:
        """True if choices were ranked after the video, as in the EgoPlan-Bench paper."""
        return self.is_ranked and self.unseen is None and self.shortcut is None

    @property
    def unseen(self) -> str | None:
        """The kind of baseline without the video; None for any other task."""
        return next((suffix for suffix in _UNSEEN if self.task.endswith(suffix)), None)

    @property
    def short_name(self) -> str:
        """The run's name, with a short task name unless it is the main task."""
        main = self.of.main_task
        if self.task == main:
            return self.run.name
        return f"{self.run.name}, {self.task.removeprefix(main).strip('_') or self.task}"

    @property
    def whole(self) -> float:
        """The number of questions that `coverage` refers to."""
        return (
            self.of.official if self.is_official else self.number("split_size") or self.of.official
        )

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
        """Return the accuracy by sum over these questions, in per cent; None if no question has
        one.
        """
        answers = self.answers or {}
        scores = [
            100 * score for key in keys if (score := answers[key].scores["acc_sum"]) is not None
        ]
        return fmean(scores) if scores else None

    @property
    def conditions(self) -> dict[str, str | None]:
        """Add the frames shown and, for written letters, the limit on new tokens."""
        return super().conditions | {"frames": self._frames, "new tokens": self._new_tokens}

    @property
    def _frames(self) -> str | None:
        """The frames shown, from the logged settings; None if the settings were not logged or no
        frames were shown.
        """
        config, end = self.task_run.config, f", {self._copy}" if self._copy else ""
        for settings in (config.get("lmms_eval_specific_kwargs"), config.get("metadata")):
            if (
                isinstance(settings, Mapping)
                and {"fps", "num_frames", "num_clips"} & settings.keys()
            ):
                return shown_frames(settings) + end
            if isinstance(settings, Mapping) and isinstance(media := settings.get("media"), str):
                return media + end
        return None

    @property
    def _copy(self) -> str:
        """The public copy that the questions were shown from; "" for other media."""
        return "" if self.unseen else (self.text("media") or "").removeprefix(READY_CLIPS)

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
        is_own = (
            self.run.harness.startswith("lmms-eval")
            and self.run.provenance.get("backend") == "vllm"
        )
        return f"{limit:,} or more" if is_own else f"up to {limit:,}"

    @property
    def questions(self) -> int | None:
        """The number of questions that the accuracy covers."""
        return self.count("predictions" if self.is_ranked or self.is_reasoned else "num_questions")

    @property
    def coverage(self) -> float | None:
        """Fraction of the official questions, see `Scored`."""
        return None if self.questions is None else min(1.0, self.questions / self.whole)

    @property
    def inexact(self) -> str | None:
        """The reason if an audit found a larger difference from full passes than the tolerance;
        else None.
        """
        return inexact({f"{name},none": self.number(name) for name in METRICS})

    @property
    def objections(self) -> tuple[str, ...]:
        """Reasons why the accuracy is not comparable with published ones; empty for the complete
        official file.
        """
        size = self.count("split_size")
        unknown_file = ["an unknown annotation file"] if size is None else []
        file = (
            [f"an annotation file of {counted(size, 'questions')}"]
            if size not in (None, self.of.official)
            else []
        )
        copy = [f"media of {self._copy}"] if self._copy else []
        return (*file, *unknown_file, *copy, *super().objections)

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
    looks, order = _looks(series, models), list(models)
    with_answers = Counter(task.run.name for task in series if task.answers is not None)
    labelled = [
        replace(task, model=models[name], look=looks[name], is_only=with_answers[name] == 1)
        for task in series
        for name in [task.run.name]
    ]
    return sorted(
        labelled,
        key=lambda task: (
            order.index(task.run.name),
            task.task != of.main_task,
            task.unseen is not None,
        ),
    )


def baseline_series(docs: Mapping[Key, Doc], series: Sequence[Series]) -> Iterator[Series]:
    """Yield the baselines of `baseline_points` as the tasks of a run.

    Args:
        docs: The questions that were asked and are available.
        series: Tasks with these questions, at least one.
    """
    from lmms_egoplan.benchmarks.egoplan.baselines import (
        baseline_points,
    )  # Importing nltk takes seconds.

    of, run, logged = (
        series[0].of,
        Run(NO_MODEL, Path(), "", "", "", {}),
        series[0].task_run.metrics,
    )
    for name, points in baseline_points([*docs.values()]).items() if docs else ():
        answers = {}
        parts: dict[str, list[float]] = {"acc": points}
        for (key, doc), score in zip(docs.items(), points, strict=True):
            answers[key] = Answer(
                key, "", name, None, {"acc": score, "acc_sum": None}, doc["video_id"]
            )
            parts.setdefault(of.part_metrics[doc.get("domain") or doc["video_source"]], []).append(
                score
            )
        metrics = {metric: fmean(of_part) for metric, of_part in parts.items()} | {
            "num_questions": len(points)
        }
        metrics |= {
            metric: logged[metric] for metric in ("split_size", "question_set") if metric in logged
        }
        task_run = TaskRun(name, metrics, {}, None)
        yield Series(f"{NO_MODEL} ({name})", run, answers, task_run, of, look=len(series))


def _models(names: Mapping[str, str]) -> dict[str, str]:
    """Return each run's model. If one harness logs a path and the other only its end, use the path.

    Args:
        names: The logged model of each run.
    """
    longer = {
        run: {name for name in names.values() if name.endswith(f"/{model}")}
        for run, model in names.items()
    }
    return {
        run: longer[run].pop() if len(longer[run]) == 1 else model for run, model in names.items()
    }


def _looks(series: Sequence[Series], models: Mapping[str, str]) -> dict[str, int]:
    """Assign numbers to the runs' colours and markers.

    A run without a main task gets its model's number.
    """
    with_main = {task.run.name for task in series if task.is_main}
    looks: dict[str, int] = {}
    for run in sorted(models, key=lambda run: run not in with_main):
        model_looks = [
            look for earlier_run, look in looks.items() if models[earlier_run] == models[run]
        ]
        looks[run] = (
            model_looks[0] if model_looks and run not in with_main else len(set(looks.values()))
        )
    return looks


def read_choice(sample: Mapping[str, Any], of: Questions) -> Answer:
    """Read the answer in a logged line.

    Raises:
        ValueError: The line does not have the form that the tasks log.
    """
    predicted, scored, doc = sample["predictions"], sample.get("acc"), sample.get("doc")
    key = (
        int(sample["split_size"]["split_size"]),
        of.id_of(predicted["sample_id"]),
        str(sample["target"]),
    )
    letter = predicted["prediction"]
    if key[2] not in [*LETTERS] or letter not in [None, *ascii_uppercase]:
        raise ValueError(
            f"target must be a letter of {LETTERS}, prediction a capital; got {key[2]}, {letter}"
        )
    ranked = predicted.get("choices")
    if ranked is not None and len(ranked) != len(LETTERS):
        raise ValueError(f"expected {len(LETTERS)} choices, got {len(ranked)}")
    if doc is not None and (missing_fields := [name for name in _DOC_FIELDS if name not in doc]):
        raise ValueError(f"the logged question has no {', '.join(missing_fields)}")
    choice = Choice(
        chosen=LETTERS.index(letter) if letter in [*LETTERS] else None,
        logprobs=ranked
        and tuple(None if choice["loss"] is None else -choice["loss"] for choice in ranked),
        text=_reply(sample) if ranked is None else None,
        sums=ranked and tuple(choice.get("logprob") for choice in ranked),
        part=next((part for part, metric in of.part_metrics.items() if metric in sample), None),
    )
    scores = {metric: _score(sample.get(metric)) for metric in ("acc", "acc_sum")}
    video = scored and str(scored["video_id"])
    return Answer(key, str(key[1]), f"question {key[1]}", choice, scores, video, doc=doc)


def _score(record: Mapping[str, Any] | None) -> float | None:
    """Return the score; None if the question could not be scored, or the backend has no such score."""
    if record is None:
        return None
    if record["score"] not in (0, 1):
        raise ValueError(f"a score must be 0 or 1, got {record['score']}")
    return float(record["score"])


def _reply(sample: Mapping[str, Any]) -> str:
    """Return the text of a reply. lm-eval logs it in a list of one."""
    reply = sample.get("filtered_resps", "")
    return str(reply[0] if isinstance(reply, list) and reply else reply or "")


class Part(NamedTuple):
    """A series' accuracies over one group of questions, per cent."""

    series: Series
    acc: Mean
    acc_sum: float | None


Groups = Mapping[str, Sequence[Part]]
"""The series that have questions in a group, by group."""


def grouped(
    series: Sequence[Series], groups: Mapping[Key, str | None], names: Iterable[str]
) -> dict[str, list[Part]]:
    """Return the series' accuracies by group, in the order of `names`.

    Groups without a question are skipped.

    Args:
        groups: The group of each question.
    """
    parts = {
        name: [
            Part(task, task.mean_over(keys), task.by_sum(keys))
            for task in series
            if (keys := [key for key in task.answers or () if groups.get(key) == name])
        ]
        for name in names
    }
    return {name: group_parts for name, group_parts in parts.items() if group_parts}
