"""Items that a construction leaves out, each recorded with its reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lmms_egoplan.validation import listing


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


def none_left(rejections: Sequence[Rejection]) -> str:
    """Explain why a construction made nothing: how many items were left out for each reason, and the first ones."""
    reasons = "; ".join(f"{reason}: {count}" for reason, count in counted(rejections))
    examples = [f"{rejection.where}: {rejection.reason}: {rejection.detail}" for rejection in rejections]
    return f"Left out: {reasons}. The first:\n{listing(examples, 3)}"
