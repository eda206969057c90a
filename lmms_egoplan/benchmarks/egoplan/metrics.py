"""Metrics of questions which action comes next: per question what a harness collects, and the aggregations over a run.

A question's values are records, not numbers: accuracies are ``{"score": 0.0 or 1.0, "video_id": ...}``, so
that a harness can cluster its standard errors by video; counts carry what they count, so that it computes
none for them.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.egoplan.clips import READY_CLIPS
from lmms_egoplan.benchmarks.egoplan.records import LETTERS, RENDERED
from lmms_egoplan.benchmarks.egoplan.reply import parse_letter
from lmms_egoplan.benchmarks.egoplan.scoring import Ranking, rank
from lmms_egoplan.coverage import RENDERED_SCENES, covered
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.audits import audit_values
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, parse_loglikelihood

Values = dict[str, dict[str, Any]]


def score_choices(doc: Doc, responses: Sequence[Any], parts: Sequence[str], official: int) -> Values:
    """Values of one question, ranked by likelihood.

    Args:
        doc: a row of the prepared dataset, with ``golden_choice_idx``.
        responses: one per choice, as `parse_loglikelihood` reads them.
        parts: names of the accuracies over a part of the questions to which this one belongs.
        official: Number of questions that the benchmark has, for ``coverage``.

    Returns:
        Those of `score_private_choices`, and ``acc``, ``acc_sum``, ``acc_bytes`` and, as ``acc``, those named in
        `parts`. An accuracy is absent where `Ranking` has None: a question that could not be scored counts for no
        accuracy, only against ``coverage``.

    Raises:
        ValueError: a response cannot be read, or not one per choice.
    """
    values, ranking = _rank_responses(doc, responses, official)
    predictions = {
        "acc": ranking.by_mean,
        "acc_sum": ranking.by_sum,
        "acc_bytes": ranking.by_bytes,
        **dict.fromkeys(parts, ranking.by_mean),
    }
    gold = LETTERS.index(doc["golden_choice_idx"])
    accuracies = {
        name: _scored(doc, predicted == gold) for name, predicted in predictions.items() if predicted is not None
    }
    return accuracies | values


def score_private_choices(doc: Doc, responses: Sequence[Any], official: int) -> Values:
    """Values of one question whose answer is private.

    Args:
        doc, responses, official: as for `score_choices`.

    Returns:
        ``ties``; ``predictions``: sample id, predicted letter or None, and for each choice its ``loss``,
        ``logprob``, ``num_tokens`` and ``is_greedy``; ``ranking_audits`` and ``ranking_audit_difference`` where the
        backend tells its computation paths; ``num_questions`` and those of `covered`; ``media`` where the question is
        shown out of a ready clip.

    Raises:
        ValueError: as for `score_choices`.
    """
    return _rank_responses(doc, responses, official)[0]


def score_letter(doc: Doc, replies: Sequence[str], parts: Sequence[str], official: int) -> Values:
    """Values of one question that was answered in writing.

    Args:
        doc, parts, official: as for `score_choices`.
        replies: one text.

    Returns:
        ``acc`` and those named in `parts`: over all questions, a reply without a readable letter is wrong;
        ``unparsed``: share of such replies; ``predictions``, ``coverage`` (a reply of any kind covers its question),
        ``split_size``, ``question_set``, ``num_questions``; ``media`` where the question is shown out of a ready clip.
    """
    (reply,) = replies
    letter = parse_letter(reply, doc["choices"])
    right = letter == doc["golden_choice_idx"]
    return {
        "acc": _scored(doc, right),
        **{part: _scored(doc, right) for part in parts},
        "unparsed": _scored(doc, letter is None),
        "predictions": _prediction(doc, letter),
    } | _counts(doc, official, scored=True)


def num_predictions(values: Sequence[dict[str, Any]]) -> int:
    """Questions with a predicted letter.

    >>> num_predictions([{"sample_id": 1, "prediction": "B"}, {"sample_id": 2, "prediction": None}])
    1
    """
    return sum(value["prediction"] is not None for value in values)


def mean_score(values: Sequence[dict[str, Any]]) -> float:
    """Share in [0, 1]: the mean of accuracies, or of ``unparsed``; each value has its score.

    >>> mean_score([{"score": 1.0, "video_id": "P01_01"}, {"score": 0.0, "video_id": "P01_02"}])
    0.5
    """
    return fmean(value["score"] for value in values)


def _rank_responses(doc: Doc, responses: Sequence[Any], official: int) -> tuple[Values, Ranking]:
    scores = [parse_loglikelihood(response) for response in responses]
    ranking = rank(scores, doc["choices"])
    letter = None if ranking.by_mean is None else LETTERS[ranking.by_mean]
    values = {
        "ties": {"tied": ranking.tied},
        "predictions": _prediction(doc, letter) | {"choices": [_choice(score) for score in scores]},
    }
    return values | audit_values(scores) | _counts(doc, official, scored=letter is not None), ranking


def _scored(doc: Doc, score: bool) -> dict[str, Any]:
    return {"score": float(score), "video_id": doc["video_id"]}


def _prediction(doc: Doc, letter: str | None) -> dict[str, Any]:
    return {"sample_id": doc["sample_id"], "prediction": letter}


def _counts(doc: Doc, official: int, scored: bool) -> Values:
    origin = RENDERED_SCENES if doc["video_id"].startswith(RENDERED) else None
    return {
        **covered(doc, official, scored, origin),
        "num_questions": {"sample_id": doc["sample_id"]},
        **({} if doc.get("clip_frames") is None else {"media": {"media": READY_CLIPS}}),
    }


def _choice(score: Loglikelihood) -> dict[str, Any]:
    return {
        "loss": _finite(score.loss),
        "logprob": _finite(score.logprob),
        "num_tokens": score.num_tokens,
        "is_greedy": score.is_greedy,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no number that is not finite: None then."""
    return value if value is not None and math.isfinite(value) else None
