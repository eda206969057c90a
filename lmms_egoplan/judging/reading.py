"""The rating in a judge's reply."""

import re

from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.judging.reply import is_ended, without_thinking

# Characters at a reply's end, in which its rating, or those of several fields, are looked for.
_END = 1000
_NO_WORDS = re.compile(r"[\W_]+\Z")


def read_rating(scale: RatingScale, reply: str | None, finish: str | None) -> float | None:
    """The rating in a reply that has ended; what a model says while it thinks is none.

    Args:
        finish: why the reply ends, as the endpoint says it, "" where it does not. Where nobody knows what that means,
            or None as of old nobody asked, a rating counts only at the very end of the reply.
    """
    has_ended = None if finish is None else is_ended(finish)
    verdict = None if reply is None or has_ended is False else without_thinking(reply)
    rating = None if verdict is None else scale.read(verdict)
    if rating is None or has_ended:
        return rating
    return rating if _ends_with_rating(scale, verdict or "") else None


def _ends_with_rating(scale: RatingScale, verdict: str) -> bool:
    """Whether no word stands behind the last rating."""
    end = verdict[-_END:]
    without_signs = _NO_WORDS.sub("", end)
    for start in range(len(end) - 1, -1, -1):
        if scale.read(end[start:]) is not None:
            return scale.read(without_signs[start:]) is None
    return False
