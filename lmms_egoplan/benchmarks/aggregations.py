"""Aggregate metrics over a run. `metric_list` in the YAML files of the tasks names these functions.

A value is the record that a harness logs for one question and one metric, not a number. Unless an
aggregation documents other fields, each record has exactly one field.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

Value = Mapping[str, Any]
Values = dict[str, dict[str, Any]]
"""The values of one question, by metric."""


def mean_score(values: Sequence[Value]) -> float:
    """Return the mean ``score`` over the questions with a score; NaN without any.

    The value of a question without a score has only its cluster.

    Raises:
        KeyError: a value is empty.

    >>> mean_score([{"score": 0.5}, {"score": 0.25}, {"activity": "clean_table"}])
    0.375
    """
    if not all(values):
        raise KeyError("score")
    scores = [value["score"] for value in values if "score" in value]
    return fmean(scores) if scores else math.nan


def share(values: Sequence[Value]) -> float:
    """Return the fraction in [0, 1] of true flags among the known ones; NaN if none is known.

    >>> share([{"truncated": True}, {"truncated": False}, {"truncated": None}])
    0.5
    """
    flags = _known(values)
    return fmean(flags) if flags else math.nan


def count(values: Sequence[Value]) -> int:
    """Count the true flags, or add the known numbers.

    >>> count([{"tied": True}, {"tied": False}])
    1
    >>> count([{"tokens": 210}, {"tokens": None}, {"tokens": 190}])
    400
    """
    return sum(_known(values))


def judge_tokens(prompt: int | None, reply: int | None) -> Values:
    """Return the values of one question about the tokens of its judgement.

    A count is None if unknown.

    >>> judge_tokens(210, None)["judge_tokens_of"]
    {'tokens': None}
    """
    both = None if prompt is None or reply is None else prompt + reply
    counts = {"judge_prompt_tokens": prompt, "judge_reply_tokens": reply, "judge_tokens_of": both}
    return {name: {"tokens": count} for name, count in counts.items()}


def num_known(values: Sequence[Value]) -> int:
    """Count the records whose field is not None.

    >>> num_known([{"truncated": True}, {"truncated": False}, {"truncated": None}])
    2
    """
    return len(_known(values))


def num_asked(values: Sequence[Value]) -> int:
    """Count the questions asked.

    >>> num_asked([{"id": "existence/1"}, {"id": "existence/2"}])
    2
    """
    return len(values)


def split_size(values: Sequence[Value]) -> int:
    """Return the number of questions in the benchmark's split, prepared or not.

    All records must agree.

    >>> split_size([{"split_size": 3355}, {"split_size": 3355}])
    3355
    """
    (size,) = set(_fields(values))
    return size


def without_partner(values: Sequence[Value]) -> int:
    """Return the number of prepared questions that are skipped because they have no partner.

    All records must agree.

    >>> without_partner([{"skipped": 40}, {"skipped": 40}])
    40
    """
    return split_size(values)


def share_of_found(values: Sequence[Value]) -> float:
    """Return the fraction in [0, 1] of found items that are judged, or suspect; NaN without items.

    Args:
        values: Records with ``found``, a number of items, and a second field, the number of them to
            count.

    >>> share_of_found([{"found": 3, "judged": 3}, {"found": 1, "judged": 0}])
    0.75
    """
    total = 0
    counted = 0
    for value in values:
        total += value["found"]
        counted += sum(number for name, number in value.items() if name != "found")
    return counted / total if total else math.nan


def names(values: Sequence[Value], without: str = "none") -> str:
    """Return the names in all records, sorted and joined by commas.

    Args:
        values: Records with one name, a list of names, or None.
        without: Result without names.

    >>> names([{"judge": "gpt-4o"}, {"judge": None}, {"judge": "gpt-4o"}])
    'gpt-4o'
    >>> names([{"judges": ["Qwen3-32B", "gpt-4o"]}, {"judges": []}])
    'Qwen3-32B, gpt-4o'
    """
    distinct = set()
    for field in _fields(values):
        distinct.update(field if isinstance(field, list) else [field])
    distinct.discard(None)
    return ", ".join(sorted(distinct)) or without


def tallied(values: Sequence[Value]) -> str:
    """Return the names in all records, most frequent first.

    They have counts if there is more than one name. None is shown as ``unknown``.

    >>> tallied([{"media": "video"}, {"media": "video"}, {"media": "images"}])
    'video (2), images (1)'
    >>> tallied([{"name": "official"}])
    'official'
    """
    counts = Counter(name or "unknown" for name in _fields(values))
    if len(counts) == 1:
        (name,) = counts
        return name
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return ", ".join(f"{name} ({counts[name]})" for name in ordered)


def _fields(values: Sequence[Value]) -> Iterator[Any]:
    """Yield the only field of each record."""
    for value in values:
        (field,) = value.values()
        yield field


def _known(values: Sequence[Value]) -> list[Any]:
    return [field for field in _fields(values) if field is not None]
