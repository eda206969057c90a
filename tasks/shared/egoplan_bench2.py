"""Bind the scorers of EgoPlan-Bench2's tasks, which this folder's YAML files reference.

The cache of responses of lmms-eval depends on the names of the functions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.egoplan import letter, rank
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_BENCH2_TEST


def score_planning_choices(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score a question whose choices were ranked by likelihood."""
    return rank.score_ranking(doc, responses, EGOPLAN_BENCH2_TEST)


def score_planning_letter(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, Any]:
    """Score a question that was answered with a letter."""
    return letter.score_letter(doc, replies[0], EGOPLAN_BENCH2_TEST, letter.read_clear)


def score_published_letter(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, Any]:
    """Score a question that was answered with a letter, read as in the authors' eval.py."""
    return letter.score_letter(doc, replies[0], EGOPLAN_BENCH2_TEST, letter.read_as_published)
