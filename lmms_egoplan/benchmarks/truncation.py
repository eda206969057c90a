"""How many answers end at the limit of new tokens: aggregations that all benchmarks report."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any


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
