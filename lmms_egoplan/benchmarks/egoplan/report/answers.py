"""What runs answered to EgoPlan's questions, and their accuracies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.egoplan import splits
from lmms_egoplan.benchmarks.egoplan.records import LETTERS, RENDERED, SOURCE_METRIC
from lmms_egoplan.report.document import Value
from lmms_egoplan.report.recompute import shared_file
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.scored import Answer, Key, Mean, ScoredTask, mean_of, read_tasks

CHANCE = 25.0
"""Per cent: one of four choices is right."""

MAIN_TASK = "egoplan_val"
UNSEEN = ("_blind", "_narrated")
"""Ends of the names of tasks without a picture."""

OFFICIAL = splits.OFFICIAL["val"]
"""Questions of EgoPlan-Val."""

# The files in ``tasks/shared`` that score a choice.
_RANKING = "egoplan_ranking"
_FILES = (_RANKING, "egoplan_replies")
# What is used of a logged question; its frames need more.
_DOC_FIELDS = ("video_source", "question", "choices", "answer", "task_goal", "past_actions", "media_path")


@dataclass(frozen=True)
class Choice:
    """chosen: index of the choice.

    logprobs: of the choices, mean per token; None where the answer was written.
    text: None where the choices were ranked.
    domain: `records.EPIC_KITCHENS` or `EGO4D`; None where there is no score.
    """

    chosen: int | None
    logprobs: tuple[float | None, ...] | None
    text: str | None
    domain: str | None


@dataclass(frozen=True)
class Series(ScoredTask):
    """One task of a run.

    An answer's key is the size of the annotation file, the sample id and the right letter, its record a `Choice`, and
    its cluster the video. Its scores are 1 or 0: ``acc`` by the mean log-probability per token, ``acc_sum`` by the sum.

    model: the run's, by the longest name that any run has for it.
    look: number of its colour and marker.
    """

    model: str
    look: int

    @property
    def is_ranked(self) -> bool:
        """By likelihood; else a letter was written."""
        return shared_file(self.task_run.config) == _RANKING

    @property
    def is_main(self) -> bool:
        return _is_main(self.task_run)

    @property
    def is_rendered(self) -> bool:
        """Whether the questions are about rendered scenes."""
        videos = [answer.cluster for answer in (self.answers or {}).values() if answer.cluster]
        return bool(videos) and all(video.startswith(RENDERED) for video in videos)

    @property
    def unseen(self) -> str | None:
        """What kind of baseline without the video this is."""
        return next((end for end in UNSEEN if self.task_run.task.endswith(end)), None)

    @property
    def short_name(self) -> str:
        """Where there is little room."""
        task = self.task_run.task
        if task == MAIN_TASK:
            return self.run.name
        return f"{self.run.name}, {task.removeprefix(MAIN_TASK).strip('_') or task}"

    @cached_property
    def main(self) -> Mean:
        """The harness's accuracy in per cent, with the interval that the samples give."""
        return Mean(self.percent("acc"), self.mean_over(self.answers or ()).interval, self.questions)

    def mean_over(self, keys: Iterable[Key]) -> Mean:
        """The accuracy over these questions, in per cent."""
        return mean_of([self.answers[key] for key in keys], "acc", scale=100)

    def by_sum(self, keys: Iterable[Key]) -> float | None:
        """The accuracy by sum over these questions, in per cent; None where none has one."""
        scores = (self.answers[key].scores["acc_sum"] for key in keys)
        known = [100 * score for score in scores if score is not None]
        return fmean(known) if known else None

    @property
    def questions(self) -> int | None:
        """Those that the accuracy is over."""
        return self.number("predictions" if self.is_ranked else "num_questions")

    @property
    def coverage(self) -> float | None:
        return None if self.questions is None else min(1.0, self.questions / OFFICIAL)

    @property
    def compares(self) -> bool:
        """Whether the accuracy compares with the published ones: over the official file, all of it."""
        return self.number("split_size") == OFFICIAL and self.coverage == 1

    def counts(self) -> dict[str, Value]:
        """By the keys of the columns of interval and counts."""
        low, high = self.main.ends
        return {"low": low, "high": high, "questions": self.questions, "coverage": self.percent("coverage")}


def read_series(runs: Sequence[Run]) -> list[Series]:
    """The tasks of this benchmark, run by run, ``egoplan_val`` first.

    Raises:
        LmmsEgoplanError: see `read_answers`.
    """
    own = [run for run in runs if any(shared_file(task_run.config) in _FILES for task_run in run.tasks.values())]
    models = _models(own)
    looks: dict[str, int] = {}
    for run in sorted(own, key=lambda run: not any(map(_is_main, run.tasks.values()))):
        has_main = any(map(_is_main, run.tasks.values()))
        same = [looks[other.name] for other in own if other.name in looks and models[other.name] == models[run.name]]
        looks[run.name] = same[0] if same and not has_main else len(set(looks.values()))
    series = [
        Series(*task, models[task[1].name], looks[task[1].name]) for task in read_tasks(own, _FILES, MAIN_TASK, _answer)
    ]
    order = list(models)
    return sorted(
        series, key=lambda task: (order.index(task.run.name), task.task != MAIN_TASK, task.task.endswith(UNSEEN))
    )


def _models(runs: Sequence[Run]) -> dict[str, str]:
    """Each run's model; one harness may tell a path of which the other tells the end."""
    names = {run.model for run in runs}
    longer = {run.name: [name for name in names if name.endswith(f"/{run.model}")] for run in runs}
    return {run.name: longer[run.name][0] if len(longer[run.name]) == 1 else run.model for run in runs}


def _is_main(task_run: TaskRun) -> bool:
    """Whether choices were ranked behind the video, as in the paper."""
    return shared_file(task_run.config) == _RANKING and not task_run.task.endswith(UNSEEN)


def _answer(sample: Mapping[str, Any]) -> Answer:
    predicted, scored, doc = sample["predictions"], sample.get("acc"), sample.get("doc")
    key = (int(sample["split_size"]["split_size"]), int(predicted["sample_id"]), str(sample["target"]))
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
        domain=next((source for source, metric in SOURCE_METRIC.items() if metric in sample), None),
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
