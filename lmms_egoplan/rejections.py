"""Items that a construction leaves out, each recorded with its reason."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rejection:
    """An item that was left out: by which step of the construction, why, and where it is.

    reason: the same words for all items of a kind, so that they can be counted.
    """

    step: str
    reason: str
    where: str
    detail: str = ""


def counted(rejections: Iterable[Rejection]) -> list[tuple[str, int]]:
    """Count rejections by reason, in order of first appearance."""
    return list(Counter(rejection.reason for rejection in rejections).items())


def rejection_lines(rejections: Iterable[Rejection]) -> str:
    """Return one line of JSON for each rejection."""
    return "".join(json.dumps(vars(rejection), ensure_ascii=False) + "\n" for rejection in rejections)
