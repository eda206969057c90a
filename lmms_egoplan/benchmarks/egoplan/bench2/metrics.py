"""EgoPlan-Bench2's metrics: what a harness collects of each question."""

from collections.abc import Sequence
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench2.records import DOMAINS
from lmms_egoplan.benchmarks.egoplan.bench2.splits import OFFICIAL, SPLIT
from lmms_egoplan.benchmarks.egoplan.metrics import Values, score_choices, score_letter
from lmms_egoplan.media.sampling import Doc

DOMAIN_METRIC = {domain: f"acc_{domain.lower().replace(' ', '_')}" for domain in DOMAINS}
"""The accuracy over a domain's questions."""


def score_planning_choices(doc: Doc, responses: Sequence[Any]) -> Values:
    """Values of one question, ranked by likelihood.

    Args:
        doc: a row of the prepared dataset.
        responses: one per choice, as `parse_loglikelihood` reads them.

    Returns:
        Those of `score_choices`, with one of the metrics in `DOMAIN_METRIC`.

    Raises:
        ValueError: a response cannot be read, or not one per choice.

    >>> doc = {
    ...     "sample_id": "0a1b_2", "video_id": "0a1b", "domain": "Daily life", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"], "split_size": 1321,
    ... }
    >>> values = score_planning_choices(doc, [(2.5, False), (1.5, True), (3.0, False), (2.0, False)])
    >>> values["acc"] == values["acc_daily_life"], values["acc"]
    (True, {'score': 1.0, 'video_id': '0a1b'})
    """
    return score_choices(doc, responses, [DOMAIN_METRIC[doc["domain"]]], OFFICIAL[SPLIT])


def score_planning_letter(doc: Doc, replies: Sequence[str]) -> Values:
    """Values of one question that was answered in writing.

    Args:
        doc: a row of the prepared dataset.
        replies: one text.

    Returns:
        Those of `score_letter`, with one of the metrics in `DOMAIN_METRIC`.

    >>> doc = {
    ...     "sample_id": "0a1b_2", "video_id": "0a1b", "domain": "Work", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"], "split_size": 1321,
    ... }
    >>> score_planning_letter(doc, ["The answer is (C)."])["acc_work"]
    {'score': 0.0, 'video_id': '0a1b'}
    """
    return score_letter(doc, replies, [DOMAIN_METRIC[doc["domain"]]], OFFICIAL[SPLIT])
