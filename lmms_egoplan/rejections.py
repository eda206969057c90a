"""Items that a construction rejects, each with its reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lmms_egoplan.validation import listing


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected item.

    step: step of the construction that rejected the item.
    reason: kind of problem. Rejections are counted by this text.
    where: location of the item.
    detail: the problem in this item; "" for none.
    """

    step: str
    reason: str
    where: str
    detail: str = ""


def counted(rejections: Iterable[Rejection]) -> list[tuple[str, int]]:
    """Count rejections by reason, in order of first appearance."""
    return list(Counter(rejection.reason for rejection in rejections).items())


def none_left(rejections: Sequence[Rejection]) -> str:
    """Explain why a construction made nothing.

    The text has the number of rejected items for each reason, and the first items.
    """
    reasons = "; ".join(f"{reason}: {count}" for reason, count in counted(rejections))
    examples = [
        f"{rejection.where}: {rejection.reason}: {rejection.detail}" for rejection in rejections
    ]
    return f"All items were rejected: {reasons}. The first:\n{listing(examples, 3)}"
