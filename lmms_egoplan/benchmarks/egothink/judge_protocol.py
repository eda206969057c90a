# ruff: noqa: RUF001 - the paper's typographic signs
"""What a judge is asked about an answer (Table 7), and how its verdict is read."""

import re

from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.paths import yaml_beside

# The ratings that Table 7 allows.
LEVELS = (0.0, 0.5, 1.0)

JUDGE_PROMPT: str = yaml_beside(__file__)["prompt"]
"""Table 7, to the letter."""

# The prompt's own example, in whatever marks and behind whatever comma, colon or line break a judge quotes it; "the
# example" alone is one where a quotation mark opens behind it.
_QUOTE = r"[\"'`“”„‘’«»‹›「『]"
_GAP = r"(?: [\s:;,.(*_>：，、–—-] | </?\w{1,10}> )"
_EXAMPLE = re.compile(
    rf"""
    \b (?: (?: for \s+ (?:example|instance) | e\.? \s? g \b | such \s as ) (?: {_QUOTE} | {_GAP} )*
    | examples? {_GAP}* {_QUOTE} (?: {_QUOTE} | {_GAP} )* )
    (?: rating [\s*_"'`”]{{0,9}} [:：=]? [\s*_"'`“]{{0,9}} )? \[{{1,2}} \s* 0?\.50* \s* \]{{1,2}}
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Table 7 asks for "[rating]" and shows "[[0.5]]". The last group matches if more brackets follow: "Rating: [0] or [1]".
_RATING = re.compile(r"\[\[([^\[\]]*)\]\]|\brating[^\w\n\[\]]{0,20}\[([^\[\]]*)\](?=([^\n\[]{0,80}\[)?)", re.IGNORECASE)
_NUMBER = re.compile(r"[01](?:\.0*)?|0?\.50*")
_NOT_EMPTY = re.compile(r"[\w\[]")
# The prompt's headings at which a reply starts over, at the start of a line or directly after a rating.
_NEW_QUESTION = re.compile(
    r"(?:^|(?<=\])(?!\]))[^\w\n]{0,20}\[[^\w\n]{0,9}(?:question|instruction)[^\w\n]{0,9}\]",
    re.IGNORECASE | re.MULTILINE,
)
# What else starts over, if a rating precedes it.
_NEW_TEXT = re.compile(
    r"^[^\w\n]{0,20}(?:(?:(?:new|next|user)[ ])?(?:question|instruction)[ \d]{0,9}[^\w\n]{0,9}[:\]]"
    r"|\[the[ ](?:start|end)[ ]of|(?:user|human)[^\w\n]{0,9}:)|<\|",
    re.IGNORECASE | re.MULTILINE,
)


def read_rating(verdict: str) -> float | None:
    """Read the rating in a judge's verdict: 0, 0.5 or 1.

    A rating is ``[[x]]``, or ``[x]`` directly after the word "rating". All ratings of the verdict must agree, or its
    last non-empty line must have exactly one. Other contents of the brackets (``7``, ``rating``) agree with nothing.

    Text after a new ``[Question]`` or ``[Instruction]`` heading does not count. After any other new start (``User:``, a
    heading of the prompt), the last line decides nothing. The example in the prompt's own instruction ("for example:
    Rating: [[0.5]]") is no rating, in whatever quotation marks.
    """
    heading = _NEW_QUESTION.search(verdict)
    text = _EXAMPLE.sub(" ", verdict[: heading.start()] if heading else verdict)
    ratings = _ratings(text)
    first = _RATING.search(text)
    if first is None or len(set(ratings)) == 1:
        return ratings[0] if ratings else None
    if _NEW_TEXT.search(text, first.end()):
        return None
    last = _ratings(next(line for line in reversed(text.splitlines()) if _NOT_EMPTY.search(line)))
    return last[0] if len(last) == 1 else None


def _ratings(text: str) -> list[float | None]:
    """List the ratings in a text; None for one off the scale, or one of several in single brackets."""
    contents = ("" if more else (double or single).strip() for double, single, more in _RATING.findall(text))
    return [float(content) if _NUMBER.fullmatch(content) else None for content in contents]


SCALE = RatingScale(read_rating, best=1)
