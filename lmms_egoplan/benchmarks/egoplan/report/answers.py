"""What the runs answered, question by question, and the prepared rows of these questions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import LETTERS, SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.splits import PREPARED
from lmms_egoplan.report.by_question import unreadable
from lmms_egoplan.report.run import Run, TaskRun

# What is used of a logged question; its frames need more.
_DOC_FIELDS = ("video_source", "question", "choices", "answer", "task_goal", "past_actions", "media_path")

Key = tuple[int, int, str]
"""A question: size of its annotation file, sample id and right letter, since small sets use the same ids."""

Docs = Mapping[Key, Mapping[str, Any]]


@dataclass(frozen=True)
class Answered:
    """A question as one task of a run answered it.

    score: 1 right, 0 wrong, by the mean log-probability per token; None where the model could not score it.
    score_by_sum: the same by the sum of the log-probabilities; None too where the backend does not tell it.
    chosen: index of the choice.
    logprobs: of the choices, mean per token; None where the answer was written.
    text: None where the choices were ranked.
    domain: `records.EPIC_KITCHENS` or `EGO4D`; like the video, None where there is no score.
    doc: the prepared row, which lm-eval alone logs.
    """

    score: float | None
    score_by_sum: float | None
    video_id: str | None
    chosen: int | None
    logprobs: tuple[float | None, ...] | None
    text: str | None
    domain: str | None
    doc: Mapping[str, Any] | None


def read_answer(run: Run, task_run: TaskRun, sample: Mapping[str, Any]) -> tuple[Key, Answered]:
    """One logged line.

    Raises:
        LmmsEgoplanError: it is not of the form that the tasks log.
    """
    try:
        predicted, scored, by_sum = sample["predictions"], sample.get("acc"), sample.get("acc_sum")
        key = (int(sample["split_size"]["split_size"]), int(predicted["sample_id"]), str(sample["target"]))
        letters = [key[2], *filter(None, [predicted["prediction"]])]
        if not all(letter in LETTERS and len(letter) == 1 for letter in letters):
            raise ValueError(f"target and prediction are to be of the letters {LETTERS}, not {', '.join(letters)}")
        ranked = predicted.get("choices")
        if ranked is not None and len(ranked) != len(LETTERS):
            raise ValueError(f"expected {len(LETTERS)} choices, got {len(ranked)}")
        logprobs = ranked and tuple(None if choice["loss"] is None else -choice["loss"] for choice in ranked)
        for record in filter(None, (scored, by_sum)):
            if record["score"] not in (0, 1):
                raise ValueError(f"a score is to be 0 or 1, not {record['score']}")
        doc = sample.get("doc")
        if doc is not None and (absent := [name for name in _DOC_FIELDS if name not in doc]):
            raise ValueError(f"the logged question lacks {', '.join(absent)}")
        answered = Answered(
            score=None if scored is None else float(scored["score"]),
            score_by_sum=None if by_sum is None else float(by_sum["score"]),
            video_id=scored and str(scored["video_id"]),
            chosen=None if predicted["prediction"] is None else LETTERS.index(predicted["prediction"]),
            logprobs=logprobs,
            text=_reply(sample) if ranked is None else None,
            domain=next((source for source, metric in SOURCE_METRIC.items() if metric in sample), None),
            doc=doc,
        )
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}; they may have been changed, or written by another version"
        raise unreadable(run, task_run, problem) from error
    return key, answered


def _reply(sample: Mapping[str, Any]) -> str:
    """lm-eval logs a list of one."""
    reply = sample.get("filtered_resps", "")
    return str(reply[0] if isinstance(reply, list) and reply else reply or "")


def find_docs(answers: Iterable[Mapping[Key, Answered]]) -> tuple[Docs, str | None]:
    """Prepared rows of the questions that were asked, where need be as lm-eval logs them; and why there are none."""
    pairs = [pair for of_task in answers for pair in of_task.items()]
    keys = {key for key, _ in pairs}
    videos = {key: answered.video_id for key, answered in pairs if answered.video_id}
    docs = {key: answered.doc for key, answered in pairs if answered.doc}
    problem = None
    if keys:
        try:
            for row in PREPARED.load("val"):
                key = (row["split_size"], row["sample_id"], row["golden_choice_idx"])
                if key in keys and videos.get(key, row["video_id"]) == row["video_id"]:
                    docs[key] = row
        except (OSError, ValueError) as error:  # What is missing or damaged, of which `datasets` has many kinds.
            problem = str(error)
    return docs, problem
