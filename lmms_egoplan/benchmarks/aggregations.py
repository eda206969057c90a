"""Aggregations over a run that several benchmarks report."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from lmms_egoplan.coverage import tally


def mean_score(values: Sequence[Mapping[str, Any]]) -> float:
    """Mean over the questions that have a score; NaN if none has.

    >>> mean_score([{"score": 0.5}, {"score": 0.25}, {"activity": "clean_table"}])
    0.375
    """
    scores = [value["score"] for value in values if "score" in value]
    return fmean(scores) if scores else math.nan


def share(values: Sequence[Mapping[str, Any]]) -> float:
    """Share in [0, 1] of the records, of one field each, in which it is true.

    >>> share([{"judged": True}, {"judged": False}])
    0.5
    """
    return fmean(flag for (flag,) in (value.values() for value in values))


def count(values: Sequence[Mapping[str, Any]]) -> int:
    """Records, of one field each, in which it is true.

    >>> count([{"tied": True}, {"tied": False}])
    1
    """
    return sum(flag for (flag,) in (value.values() for value in values))


def num_asked(values: Sequence[Mapping[str, Any]]) -> int:
    """Questions asked.

    >>> num_asked([{"id": "existence/1"}, {"id": "existence/2"}])
    2
    """
    return len(values)


def split_size(values: Sequence[Mapping[str, Any]]) -> int:
    """Questions in the benchmark's split, prepared or not.

    >>> split_size([{"split_size": 3355}, {"split_size": 3355}])
    3355
    """
    (size,) = {value["split_size"] for value in values}
    return size


def truncated_share(values: Sequence[Mapping[str, Any]]) -> float:
    """Share in [0, 1] of the answers that end at the token limit, among those where it is known; NaN if none.

    >>> truncated_share([{"truncated": True}, {"truncated": False}, {"truncated": None}])
    0.5
    """
    known = [value["truncated"] for value in values if value["truncated"] is not None]
    return fmean(known) if known else math.nan


def num_counted(values: Sequence[Mapping[str, Any]]) -> int:
    """Answers of which it is known whether they end at the token limit.

    >>> num_counted([{"truncated": True}, {"truncated": False}, {"truncated": None}])
    2
    """
    return sum(value["truncated"] is not None for value in values)


def media_used(values: Sequence[Mapping[str, Any]]) -> str:
    """In which forms the model was shown what it was asked about, the most frequent first, with numbers of several.

    ``video`` for one, or ``video (298), images (2)``; ``unknown`` where one is not known.

    >>> media_used([{"media": "video"}, {"media": "video"}, {"media": "images"}])
    'video (2), images (1)'
    """
    return tally(value["media"] or "unknown" for value in values)
