"""Coverage: the share of a benchmark's official questions that a score is over."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

OFFICIAL = "official"
"""The question set of a benchmark's own questions, or of a part of them."""

RENDERED_SCENES = "rendered scenes"
"""The question set of the demo: its scores are meaningless."""


def covered(doc: Mapping[str, Any], official: int, scored: float, origin: str | None = None) -> dict[str, Any]:
    """Return the values ``coverage``, ``split_size`` and ``question_set`` of one question.

    Args:
        doc: A row of the prepared dataset, with ``split_size``, the number of questions in the prepared file.
        official: Number of questions that the benchmark has for the task.
        scored: 1 if the main score is over this question, 0 if not, or the share of the question that was scored.
        origin: Where the question comes from, if it is not the benchmark's. Default: the row's ``origin``.

    >>> covered({"split_size": 6}, 3355, 1)["coverage"]
    {'scored': 1, 'of': 3355}
    >>> covered({"split_size": 6, "origin": "built"}, 3355, 1)
    {'coverage': {'scored': 1, 'of': 6}, 'question_set': {'name': 'built'}, 'split_size': {'split_size': 6}}
    """
    size = doc.get("split_size") or official
    larger = f"a file of {size:,} instead of {official:,} questions" if size > official else OFFICIAL
    name = origin or doc.get("origin") or larger
    return {
        "coverage": {"scored": scored, "of": official if name == OFFICIAL else size},
        "question_set": {"name": name},
        **({"split_size": {"split_size": size}} if "split_size" in doc else {}),
    }


def coverage(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the fraction of official questions that were scored; of prepared ones if they are not the benchmark's.

    >>> coverage([{"scored": True, "of": 4}, {"scored": False, "of": 4}])
    0.25
    """
    return sum(value["scored"] for value in values) / min(value["of"] for value in values)


def question_sets(values: Sequence[Mapping[str, Any]]) -> str:
    """Name the set of questions: ``official``, or where they come from instead.

    >>> question_sets([{"name": "official"}, {"name": "built"}, {"name": "built"}])
    'built (2), official (1)'
    """
    return tally(value["name"] for value in values)


def tally(names: Iterable[str]) -> str:
    """Join names, the most frequent first, with counts if there are several.

    >>> tally(["video", "video", "images"])
    'video (2), images (1)'
    """
    counts = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    return counts[0][0] if len(counts) == 1 else ", ".join(f"{name} ({count})" for name, count in counts)


def names(values: Sequence[Mapping[str, Any]], without: str = "none") -> str:
    """Join the names in records of one field each, sorted; without any, return `without`.

    >>> names([{"judge": "gpt-4o"}, {"judge": None}, {"judge": "gpt-4o"}])
    'gpt-4o'
    """
    return ", ".join(sorted({name for (name,) in (value.values() for value in values)} - {None})) or without
