"""What runs answered to questions which action comes next, and their accuracies."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar

from lmms_egoplan.benchmarks.egoplan.records import LETTERS
from lmms_egoplan.benchmarks.egoplan.visuals import shown_frames
from lmms_egoplan.ranking.audits import METRICS, inexact
from lmms_egoplan.report.document import Value
from lmms_egoplan.report.numbers import counted
from lmms_egoplan.report.recompute import shared_file
from lmms_egoplan.report.scored import Answer, Key, Mean, ScoredTask, in_percent, mean_of

CHANCE = 25.0
"""Per cent: one of four choices is right."""

# What is used of a logged question; its frames need more.
_DOC_FIELDS = ("video_source", "question", "choices", "answer", "task_goal", "past_actions", "media_path")


@dataclass(frozen=True)
class Choice:
    """chosen: index of the choice.

    logprobs: of the choices, mean per token; None where the answer was written.
    text: None where the choices were ranked.
    domain: the part of the questions that this one belongs to; None where there is no score.
    """

    chosen: int | None
    logprobs: tuple[float | None, ...] | None
    text: str | None
    domain: str | None


@dataclass(frozen=True)
class ChoiceSeries(ScoredTask):
    """One task of a run.

    An answer's key is the size of the annotation file, the sample id and the right letter, its record a `Choice`, and
    its cluster the video. Its scores are 1 or 0: ``acc`` by the mean log-probability per token, ``acc_sum`` by the sum.

    RANKING: the file in ``tasks/shared`` by which choices are ranked; by any other, letters are read.
    OFFICIAL: how many questions the official file has.
    """

    RANKING: ClassVar[str]
    OFFICIAL: ClassVar[int]

    @property
    def is_ranked(self) -> bool:
        """By likelihood; else a letter was written."""
        return shared_file(self.task_run.config) == self.RANKING

    @property
    def whole(self) -> int:
        """Number of questions that `coverage` is the share of."""
        return self.OFFICIAL if self.is_official else self.number("split_size") or self.OFFICIAL

    @cached_property
    def main(self) -> Mean:
        """The harness's accuracy in per cent, with the interval that the samples give."""
        mean = self.mean_over(self.answers or ())
        return Mean(self.percent("acc"), mean.interval, self.questions, mean.clusters if self.answers else None)

    def mean_over(self, keys: Iterable[Key]) -> Mean:
        """The accuracy over these questions, in per cent."""
        return mean_of([self.answers[key] for key in keys], "acc", scale=100)

    def by_sum(self, keys: Iterable[Key]) -> float | None:
        """The accuracy by sum over these questions, in per cent; None where none has one."""
        scores = (self.answers[key].scores["acc_sum"] for key in keys)
        known = [100 * score for score in scores if score is not None]
        return fmean(known) if known else None

    @property
    def conditions(self) -> dict[str, str | None]:
        """With the frames that were shown and, where letters were written, the limit on new tokens."""
        return super().conditions | {"frames": self._frames, "new tokens": self._new_tokens}

    @property
    def _frames(self) -> str | None:
        """As the harness logged the settings; None where it did not, and where no frames were shown."""
        config = self.task_run.config
        for settings in (config.get("lmms_eval_specific_kwargs"), config.get("metadata")):
            if isinstance(settings, Mapping) and ("fps" in settings or "num_frames" in settings):
                return shown_frames(settings)
            if isinstance(settings, Mapping) and isinstance(media := settings.get("media"), str):
                counts = (settings.get("num_clips"), settings.get("frames_per_clip"))
                return media if None in counts else f"{counts[0]} clips of {counts[1]}"
        return None

    @property
    def _new_tokens(self) -> str | None:
        limits = self.task_run.config.get("generation_kwargs")
        if self.is_ranked or not isinstance(limits, Mapping):
            return None
        most = limits.get("max_new_tokens", limits.get("max_gen_toks"))
        return f"up to {most:,}" if isinstance(most, int) else None

    @property
    def questions(self) -> int | None:
        """Those that the accuracy is over."""
        return self.number("predictions" if self.is_ranked else "num_questions")

    @property
    def coverage(self) -> float | None:
        return None if self.questions is None else min(1.0, self.questions / self.whole)

    @property
    def inexact(self) -> str | None:
        """That an audit has found a larger difference from full passes than the tolerance."""
        return inexact({f"{name},none": self.number(name) for name in METRICS})

    @property
    def apart(self) -> tuple[str, ...]:
        """Over the official file, all of it, the accuracy compares with the published ones."""
        size = self.number("split_size")
        other = [] if size in (None, self.OFFICIAL) else [f"an annotation file of {counted(size, 'questions')}"]
        unknown = ["an unknown annotation file"] if size is None else []
        return (*other, *unknown, *super().apart)

    def counts(self) -> dict[str, Value]:
        """By the keys of the columns of interval and counts."""
        low, high = self.main.ends
        return {"low": low, "high": high, "questions": self.questions, "coverage": in_percent(self.coverage)}


def read_choice(sample: Mapping[str, Any], id_of: Callable[[Any], Any], domain_metrics: Mapping[str, str]) -> Answer:
    """The answer in a logged line.

    Args:
        id_of: the sample id as keys have it.
        domain_metrics: by domain, the metric that a question of the domain alone has.

    Raises:
        ValueError: it is not of the form that the tasks log.
    """
    predicted, scored, doc = sample["predictions"], sample.get("acc"), sample.get("doc")
    key = (int(sample["split_size"]["split_size"]), id_of(predicted["sample_id"]), str(sample["target"]))
    letters = [key[2], *filter(None, [predicted["prediction"]])]
    if not all(letter in LETTERS and len(letter) == 1 for letter in letters):
        raise ValueError(f"target and prediction are to be of the letters {LETTERS}, not {', '.join(letters)}")
    ranked = predicted.get("choices")
    if ranked is not None and len(ranked) != len(LETTERS):
        raise ValueError(f"expected {len(LETTERS)} choices, got {len(ranked)}")
    if doc is not None and (absent := [name for name in _DOC_FIELDS if name not in doc]):
        raise ValueError(f"the logged question lacks {', '.join(absent)}")
    choice = Choice(
        chosen=None if predicted["prediction"] is None else LETTERS.index(predicted["prediction"]),
        logprobs=ranked and tuple(None if choice["loss"] is None else -choice["loss"] for choice in ranked),
        text=_reply(sample) if ranked is None else None,
        domain=next((domain for domain, metric in domain_metrics.items() if metric in sample), None),
    )
    scores = {metric: _score(sample.get(metric)) for metric in ("acc", "acc_sum")}
    video = scored and str(scored["video_id"])
    return Answer(key, str(key[1]), f"question {key[1]}", choice, scores, video, doc=doc)


def _score(record: Mapping[str, Any] | None) -> float | None:
    """None where the model could not score the question, or the backend does not tell."""
    if record is None:
        return None
    if record["score"] not in (0, 1):
        raise ValueError(f"a score is to be 0 or 1, not {record['score']}")
    return float(record["score"])


def _reply(sample: Mapping[str, Any]) -> str:
    """lm-eval logs a list of one."""
    reply = sample.get("filtered_resps", "")
    return str(reply[0] if isinstance(reply, list) and reply else reply or "")


def score_rows(series: Iterable[ChoiceSeries], metrics: Collection[str]) -> list[dict[str, Value]]:
    """A row for each task with its accuracies in per cent, and what they are over.

    Args:
        metrics: their names.
    """
    return [
        {"run": task.run.name, "task": task.task, "ties": task.number("ties")}
        | {metric: task.percent(metric) for metric in metrics}
        | task.counts()
        | {"asked": task.number("num_questions")}
        for task in series
    ]


@dataclass(frozen=True)
class Part:
    """A series' accuracies over one group of questions, per cent."""

    series: ChoiceSeries
    acc: Mean
    acc_sum: float | None


Groups = Mapping[str, Sequence[Part]]
"""By group, the series that have questions in it."""


def grouped(
    series: Sequence[ChoiceSeries], groups: Mapping[Key, str | None], names: Iterable[str]
) -> dict[str, list[Part]]:
    """The series' accuracies by group, in the order of `names`; groups without a question are left out.

    Args:
        groups: the group of each question.
    """
    parts = {
        name: [
            Part(task, task.mean_over(own), task.by_sum(own))
            for task in series
            if (own := [key for key in task.answers or () if groups.get(key) == name])
        ]
        for name in names
    }
    return {name: of_group for name, of_group in parts.items() if of_group}


def group_rows(groups: Groups, column: str = "group") -> list[dict[str, Value]]:
    """A row for each series in each group, whose name stands in this column."""
    return [
        {column: group, "run": part.series.run.name, "task": part.series.task}
        | {"acc_sum": part.acc_sum, "questions": part.acc.questions}
        | part.acc.cells("acc")
        for group, parts in groups.items()
        for part in parts
    ]
