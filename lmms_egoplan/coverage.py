"""Question sets and coverage: whose questions were asked, and the share of them that was scored."""

from collections.abc import Mapping, Sequence
from typing import Any

OFFICIAL = "official"
"""Name of a question set that contains only the benchmark's own questions, all or some of them."""

BY_COUNTS = "official by counts"
"""Name of a question set that has the published numbers.

Its records were not compared with the published ones.
"""

OWN = "own"
"""Name of a question set that lacks the published numbers, or has different records."""

RENDERED_SCENES = "rendered scenes"
"""Name of the demo's question set, whose scores are meaningless."""


def set_of(*, has_counts: bool, digest: str, published: str | None) -> str:
    """Name the question set of a whole file, even if only some of its questions are prepared.

    Args:
        has_counts: True if the file has the published number of records, and the published counts
            by source.
        digest: Digest of the file's records, see `records_digest`.
        published: Digest of the published records; None if it is unknown.

    >>> set_of(has_counts=True, digest="12ab", published=None)
    'official by counts'
    >>> set_of(has_counts=True, digest="12ab", published="34cd")
    'own'
    """
    if not has_counts or published not in (None, digest):
        return OWN
    return BY_COUNTS if published is None else OFFICIAL


def is_official(name: str) -> bool:
    """Return whether a question set contains the benchmark's own questions, as far as known.

    >>> is_official("official by counts"), is_official("own")
    (True, False)
    >>> is_official("official (6), built (2)")
    False
    """
    return name in (OFFICIAL, BY_COUNTS)


def coverage_values(
    doc: Mapping[str, Any], official: int, scored: float, origin: str | None = None
) -> dict[str, Mapping[str, Any]]:
    """Return the values ``coverage`` and ``question_set`` of one question.

    Args:
        doc: A row of the prepared dataset, with ``split_size``, the number of questions in the
            prepared file, ``question_set`` (`OWN` if it is absent), and in a compact run
            ``subset``, the subset's design, which is copied to ``coverage``.
        official: Number of the benchmark's questions for the task.
        scored: Fraction of the question that the main score includes; usually 0 or 1.
        origin: Source of a question that is not the benchmark's. Default: the row's ``origin``.

    >>> coverage_values({"split_size": 3355, "question_set": "official"}, 3355, 1)["coverage"]
    {'scored': 1, 'of': 3355}
    >>> built = {"split_size": 6, "question_set": "own", "origin": "built"}
    >>> coverage_values(built, 3355, 1)
    {'coverage': {'scored': 1, 'of': 6}, 'question_set': {'name': 'built'}}
    """
    name = origin or doc.get("origin") or doc.get("question_set") or OWN
    coverage: dict[str, Any] = {
        "scored": scored,
        "of": official if is_official(name) else doc.get("split_size") or official,
    }
    if doc.get("subset"):
        coverage["subset"] = doc["subset"]
    return {"coverage": coverage, "question_set": {"name": name}}


def split_details(doc: Mapping[str, Any]) -> dict[str, int]:
    """Return the entries of ``details`` about a question's split, of those that its row has.

    Returns:
        ``split_size``, the number of questions in the prepared file, and ``without_partner``, the
        number of questions that `with_swapped_media` skips.

    >>> split_details({"sample_id": 7, "split_size": 3355})
    {'split_size': 3355}
    """
    return {name: doc[name] for name in ("split_size", "without_partner") if name in doc}


def coverage(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the scored fraction of the official questions.

    If the prepared questions have another source, return the scored fraction of these.

    >>> coverage([{"scored": True, "of": 4}, {"scored": False, "of": 4}])
    0.25
    """
    return sum(value["scored"] for value in values) / min(value["of"] for value in values)
