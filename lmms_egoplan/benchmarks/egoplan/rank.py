"""Rank a question's choices by their likelihoods (sec. 3.5), and score the ranking."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.aggregations import Values
from lmms_egoplan.benchmarks.egoplan.metrics import (
    ScoredSplit,
    accuracy,
    prediction_value,
    question_details,
    question_values,
)
from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.audits import ranking_details
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, parse_loglikelihood


@dataclass(frozen=True, slots=True)
class Ranking:
    """Index of the choice that each score prefers; the first one if several are equal.

    All indices are None if a score is not finite.

    Attributes:
        by_mean: Choice with the highest mean log-probability per token; None if a mean is unknown.
            Sec. 3.5 says only "likelihood p(a|v, l)". The mean is inferred from eq. 4, which scores
            candidates in the training loss.
        by_sum: Choice with the highest sum of log-probabilities; None if a sum is unknown.
            lmms-eval's stock backends return means, and lm-eval's model classes return sums. With a
            token count, one gives the other.
        by_bytes: Choice with the highest sum divided by the choice's UTF-8 bytes; None if a sum is
            unknown.
        tied: True if several choices share the best mean.
    """

    by_mean: int | None
    by_sum: int | None
    by_bytes: int | None
    tied: bool


def rank(scores: Sequence[Loglikelihood], choices: Sequence[str]) -> Ranking:
    """Rank the choices of a question by their likelihoods (sec. 3.5).

    Args:
        scores: One per choice.
        choices: Texts of the choices, at least one, none empty.

    Raises:
        ValueError: The numbers of scores and choices differ.

    >>> scores = [Loglikelihood(loss=1.0, num_tokens=2), Loglikelihood(loss=0.75, num_tokens=4)]
    >>> rank(scores, ["open the tap", "dry the hands with a towel"])
    Ranking(by_mean=1, by_sum=0, by_bytes=1, tied=False)
    """
    if len(scores) != len(choices):
        raise ValueError(f"expected a score for each of {len(choices)} choices, got {len(scores)}")
    losses = [score.loss for score in scores if score.loss is not None]
    sums = [score.logprob for score in scores if score.logprob is not None]
    if not all(map(math.isfinite, losses + sums)):
        return Ranking(None, None, None, tied=False)
    by_mean = None
    by_sum = None
    by_bytes = None
    tied = False
    if len(losses) == len(choices):
        lowest = min(losses)
        by_mean = losses.index(lowest)
        tied = losses.count(lowest) > 1
    if len(sums) == len(choices):
        by_sum = sums.index(max(sums))
        per_byte = [
            total / len(choice.encode()) for total, choice in zip(sums, choices, strict=True)
        ]
        by_bytes = per_byte.index(max(per_byte))
    return Ranking(by_mean, by_sum, by_bytes, tied)


def score_ranking(doc: Doc, responses: Sequence[Any], split: ScoredSplit) -> Values:
    """Score one question whose choices were ranked by likelihood.

    Args:
        doc: Row of the prepared dataset, with ``golden_choice_idx`` if the split has answers.
        responses: One per choice, as `parse_loglikelihood` reads them.
        split: The question's split.

    Returns:
        - ``acc``, ``acc_sum``, ``acc_bytes``, and the accuracy of the question's part (same value
          as ``acc``), if the split has answers. An accuracy is absent if `Ranking` has None for it.
          Without `Ranking.by_mean`, the question also lowers ``coverage``
        - the values of `question_values`
        - ``details``: ``ties``; ``predictions``, the sample id, the predicted letter or None, and
          for each choice its ``loss``, ``logprob``, ``num_tokens`` and ``is_greedy``; the entries
          of `ranking_details` and `question_details`

    Raises:
        ValueError: A response cannot be read, or the numbers of responses and choices differ.

    >>> from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_TEST, EGOPLAN_VAL
    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens",
    ...     "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 3355,
    ... }
    >>> losses = [(2.5, False), (1.5, True), (3.0, False), (2.0, False)]  # in nats per token
    >>> values = score_ranking(doc, losses, EGOPLAN_VAL)
    >>> values["acc"]
    {'cluster': 'P01_01', 'score': 1.0}
    >>> values["details"]["predictions"]["prediction"]
    'B'
    >>> sorted(score_ranking(doc, losses, EGOPLAN_TEST))
    ['coverage', 'details', 'question_set']
    """
    scores = [parse_loglikelihood(response) for response in responses]
    ranking = rank(scores, doc["choices"])
    letter = None if ranking.by_mean is None else LETTERS[ranking.by_mean]
    choices = [_choice(score) for score in scores]
    details = {
        "ties": ranking.tied,
        "predictions": prediction_value(doc, letter) | {"choices": choices},
        **ranking_details(scores),
        **question_details(doc),
    }
    accuracies = _accuracies(doc, ranking, split) if split.has_answers else {}
    return {
        **accuracies,
        **question_values(doc, split, scored=letter is not None),
        "details": details,
    }


def _accuracies(doc: Doc, ranking: Ranking, split: ScoredSplit) -> Values:
    """Return the accuracy of each score that prefers a choice."""
    preferred = {
        "acc": ranking.by_mean,
        "acc_sum": ranking.by_sum,
        "acc_bytes": ranking.by_bytes,
        split.part_metric(doc): ranking.by_mean,
    }
    gold = LETTERS.index(doc["golden_choice_idx"])
    accuracies: Values = {}
    for metric, choice in preferred.items():
        if choice is not None:
            accuracies[metric] = accuracy(doc, choice == gold)
    return accuracies


def _choice(score: Loglikelihood) -> dict[str, Any]:
    return {
        "loss": _finite(score.loss),
        "logprob": _finite(score.logprob),
        "num_tokens": score.num_tokens,
        "is_greedy": score.is_greedy,
    }


def _finite(value: float | None) -> float | None:
    """Replace a number that is not finite with None, as JSON cannot represent it."""
    return value if value is not None and math.isfinite(value) else None
