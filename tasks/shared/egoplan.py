"""Bind the scorers of EgoPlan-Bench's tasks, which this folder's YAML files reference.

The cache of responses of lmms-eval depends on the names of the functions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.egoplan import letter, published_scores, rank
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_VAL


def score_ranking(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score a question of the validation split whose choices were ranked by likelihood."""
    return rank.score_ranking(doc, responses, EGOPLAN_VAL)


def score_reply(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, Any]:
    """Score a question of the validation split that was answered with a letter."""
    return letter.score_letter(doc, replies[0], EGOPLAN_VAL, letter.read_clear)


def score_reasoned(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, Any]:
    """Score a question of the validation split, answered after a summary and a description."""
    return letter.score_letter(doc, replies[0], EGOPLAN_VAL, letter.read_reasoned)


score_published_clips = published_scores.score_published_clips
score_preset = published_scores.score_preset
