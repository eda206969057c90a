"""The rating in a judge's reply."""

import re

from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.judging.reply import is_ended, without_thinking

# Characters at a reply's end, in which its rating, or those of several fields, are looked for.
_END = 1000
_NO_WORDS = re.compile(r"[\W_]+\Z")


def read_rating(scale: RatingScale, reply: str | None, finish: str | None) -> float | None:
    """Read the rating in a reply that has ended; what a model says while it thinks is none.

    Args:
        finish: why the reply ends, as the endpoint says it, "" if it does not. If nobody knows what that means, or if
            it is None, since nobody asked, a rating counts only at the very end of the reply.
    """
    verdict = _verdict(reply, finish)
    rating = None if verdict is None else scale.read(verdict)
    if rating is None or (finish is not None and is_ended(finish)):
        return rating
    return rating if _ends_with_rating(scale, verdict or "") else None


def is_unclear(scale: RatingScale, reply: str | None, finish: str | None) -> bool:
    """Return whether a reply has a verdict without a rating, so that another reading of its end would not help."""
    verdict = _verdict(reply, finish)
    return verdict is not None and scale.read(verdict) is None


def _verdict(reply: str | None, finish: str | None) -> str | None:
    """Return a reply after the model's thinking; None if the reply or the thinking did not end."""
    return None if reply is None or (finish is not None and is_ended(finish) is False) else without_thinking(reply)


def _ends_with_rating(scale: RatingScale, verdict: str) -> bool:
    """Return whether no word follows the last rating."""
    end = verdict[-_END:]
    without_signs = _NO_WORDS.sub("", end)
    for start in range(len(end) - 1, -1, -1):
        if scale.read(end[start:]) is not None:
            return scale.read(without_signs[start:]) is None
    return False
