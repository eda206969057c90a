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
    (?: rating [\s*_"'`”]{{0,9}} [:：=]? [\s*_"'`“]{{0,9}} )? \[\[ \s* 0?\.50* \s* \]\]
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BRACKETED = re.compile(r"\[\[([^\[\]]*)\]\]")
_NUMBER = re.compile(r"[01](?:\.0*)?|0?\.50*")


def read_rating(verdict: str) -> float | None:
    """The rating in a judge's verdict: 0, 0.5 or 1.

    The last ``[[x]]`` alone decides: where it holds anything else (``7``, ``-1``, ``rating``) there is no rating,
    whatever was said before. The example in the prompt's own instruction ("for example: Rating: [[0.5]]") is no
    rating, however it is quoted.
    """
    ratings = _BRACKETED.findall(_EXAMPLE.sub(" ", verdict))
    last = ratings[-1].strip() if ratings else ""
    return float(last) if _NUMBER.fullmatch(last) else None


SCALE = RatingScale(read_rating, best=1)
