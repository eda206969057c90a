"""Accuracy by number of past actions and by goal-answer similarity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.egoplan.report.answers import Docs, Key
from lmms_egoplan.benchmarks.egoplan.report.series import Series
from lmms_egoplan.benchmarks.egoplan.report.similarity import levels, similarities
from lmms_egoplan.errors import LmmsEgoplanError

# The least number of past actions in each bin: the paper's text does not tell those of Fig. 8.
_BINS = (0, 1, 2, 4, 8, 16)
BIN_NAMES = ("0", "1", "2 to 3", "4 to 7", "8 to 15", "16 and more")


@dataclass(frozen=True)
class Part:
    """A series' accuracies over one group of questions, per cent; None where none is scored."""

    acc: float | None
    acc_sum: float | None
    interval: tuple[float, float] | None
    questions: int


def bin_of(doc: Mapping[str, Any]) -> int:
    """Index in `BIN_NAMES`, by number of past actions."""
    count = len(doc["past_actions"])
    return max(number for number, least in enumerate(_BINS) if count >= least)


def similarity_levels(docs: Docs, encoder: str | None) -> tuple[dict[Key, int], str, str | None]:
    """The level of each question, how similarity was measured, and why it was not.

    Raises:
        LmmsEgoplanError: a model for BERTScore was asked for and cannot be loaded. The sentence encoder may be missing.
    """
    if not docs:
        return {}, "", None
    pairs = {key: (doc["task_goal"], doc["answer"]) for key, doc in docs.items()}
    try:
        similar = similarities(pairs.values(), encoder)
    except LmmsEgoplanError as error:
        if encoder is not None:
            raise
        return {}, "", str(error)
    return levels({key: similar.values[pair] for key, pair in pairs.items()}), similar.measure, None


def group_series(
    series: Sequence[Series], groups: Mapping[Key, int], names: Sequence[str]
) -> dict[str, dict[str, tuple[Series, Part]]]:
    """By group and series; groups without a question are left out."""
    parts: dict[str, dict[str, tuple[Series, Part]]] = {}
    for number, name in enumerate(names):
        for each in series:
            keys = [key for key in each.answers or () if groups.get(key) == number]
            if keys:
                answers = [each.answers[key] for key in keys]
                scores = [answered.score for answered in answers if answered.score is not None]
                by_sum = [answered.score_by_sum for answered in answers if answered.score_by_sum is not None]
                part = Part(_percent(scores), _percent(by_sum), each.interval(keys), len(scores))
                parts.setdefault(name, {})[each.name] = each, part
    return parts


def _percent(scores: Sequence[float]) -> float | None:
    return 100 * sum(scores) / len(scores) if scores else None
