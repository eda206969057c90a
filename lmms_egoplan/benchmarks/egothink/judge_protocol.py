"""Define the judge's prompt (Table 7) and read its verdict."""

import re

from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import compile_patterns

# The ratings that Table 7 allows.
LEVELS = (0.0, 0.5, 1.0)

_TEXTS = module_yaml(__file__)
JUDGE_PROMPT: str = _TEXTS["prompt"]
"""Table 7, verbatim."""

_RE = compile_patterns(_TEXTS["patterns"], re.VERBOSE)


def read_rating(verdict: str) -> float | None:
    """Read the rating in a judge's verdict: 0, 0.5 or 1.

    A rating is ``[[x]]``, or ``[x]`` directly after the word "rating". All ratings of the verdict must agree, or the
    last non-empty line must have exactly one. Other bracket contents, such as ``[[7]]``, agree with no rating. The same
    applies to a rating that is denied ("not [[1]]"), hypothetical ("would have been [[1]]"), struck out, of one
    criterion ("Helpfulness: [[1]]"), quoted from the answer, or changed by what follows ("[[1]]/5").

    Text after a new ``[Question]`` or ``[Instruction]`` heading is ignored. After any other restart (``User:``, a
    heading of the prompt), differing ratings give None. The example from the prompt ("for example: Rating: [[0.5]]") is
    not a rating, whatever its quotation marks. Nor is the scale: a list of all three ratings on successive lines.
    """
    heading = _RE.new_question.search(verdict)
    text = _RE.example.sub(" ", verdict[: heading.start()] if heading else verdict)
    ratings = _ratings(text)
    first = _RE.rating.search(text)
    if first is None or len(set(ratings)) == 1:
        return ratings[0] if ratings else None
    if _RE.new_text.search(text, first.end()):
        return None
    last = _ratings(next(line for line in reversed(text.splitlines()) if _RE.not_empty.search(line)))
    return last[0] if len(last) == 1 else None


def _ratings(text: str) -> list[float | None]:
    """List the ratings in a text; None for one off the scale, one that is not meant, or one changed by what follows."""
    contents = (
        "" if unmeant or more or changed else (double or single).strip()
        for unmeant, double, single, more, changed in _RE.rating.findall(text)
    )
    return [float(content) if _RE.number.fullmatch(content) else None for content in contents]


SCALE = RatingScale(read_rating, best=1)
