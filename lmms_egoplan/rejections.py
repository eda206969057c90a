"""What a construction leaves out, and why: one record each, so that nothing is dropped in silence."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rejection:
    """What was left out: of which step of the construction, why, and where it is.

    reason: the same words for all of its kind, so that they can be counted.
    """

    step: str
    reason: str
    where: str
    detail: str = ""


def counted(rejections: Iterable[Rejection]) -> list[tuple[str, int]]:
    """How much was left out, by reason, in the order of the first of each."""
    return list(Counter(rejection.reason for rejection in rejections).items())


def rejection_lines(rejections: Iterable[Rejection]) -> str:
    """A JSON object in a line for each."""
    return "".join(json.dumps(vars(rejection), ensure_ascii=False) + "\n" for rejection in rejections)
