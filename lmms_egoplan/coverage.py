"""Coverage: the share of a benchmark's official questions that were scored."""

from collections.abc import Mapping, Sequence
from typing import Any

OFFICIAL = "official"
"""Name of a question set that contains only the benchmark's own questions, all or some of them."""

RENDERED_SCENES = "rendered scenes"
"""Name of the demo's question set, whose scores are meaningless."""


def covered(doc: Mapping[str, Any], official: int, scored: float, origin: str | None = None) -> dict[str, Any]:
    """Return the values ``coverage``, ``split_size`` and ``question_set`` of one question.

    If questions without a partner are skipped (`with_partners`), also ``without_partner``.

    Args:
        doc: A row of the prepared dataset, with ``split_size``, the number of questions in the prepared file, and in a
            compact run ``subset``, the design of the subset, which is copied to ``coverage``.
        official: Number of the benchmark's questions for the task.
        scored: Fraction of the question that the main score includes; usually 0 or 1.
        origin: Source of a question that is not the benchmark's. Default: the row's ``origin``.

    >>> covered({"split_size": 6}, 3355, 1)["coverage"]
    {'scored': 1, 'of': 3355}
    >>> covered({"split_size": 6, "origin": "built"}, 3355, 1)
    {'coverage': {'scored': 1, 'of': 6}, 'question_set': {'name': 'built'}, 'split_size': {'split_size': 6}}
    """
    size = doc.get("split_size") or official
    larger = f"a file of {size:,} instead of {official:,} questions" if size > official else OFFICIAL
    name = origin or doc.get("origin") or larger
    subset = {"subset": doc["subset"]} if doc.get("subset") else {}
    return {
        "coverage": {"scored": scored, "of": official if name == OFFICIAL else size, **subset},
        "question_set": {"name": name},
        **({"split_size": {"split_size": size}} if "split_size" in doc else {}),
        **({"without_partner": {"skipped": doc["without_partner"]}} if "without_partner" in doc else {}),
    }


def coverage(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the scored fraction of the official questions, or of the prepared ones if these have another source.

    >>> coverage([{"scored": True, "of": 4}, {"scored": False, "of": 4}])
    0.25
    """
    return sum(value["scored"] for value in values) / min(value["of"] for value in values)
