"""Define the protocols of the judge, and read its verdicts.

- ``paper``: the prompt of Table 7 with this project's reader, the default.
- ``authors``: AdaCheng/EgoThink, commit fbafe8f (``gen_judgment.py``, ``common.py``, ``judge_prompts.jsonl``).
- ``lmms-eval-0.7.3``: ``lmms_eval/tasks/egothink/utils.py`` of that version.

All of them ask up to three times for a rating, and read it after the model's thinking. ``paper`` accepts only `LEVELS`,
the others any number from 0 to 1.
"""

import re
from dataclasses import replace

from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, JudgeProtocol, RatingScale
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import compile_patterns

# The ratings that Table 7 allows.
LEVELS = (0.0, 0.5, 1.0)

_TEXTS = module_yaml(__file__)
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


def read_first_rating(verdict: str) -> float | None:
    """Read the first ``[[number]]`` of a verdict, otherwise the first ``[number]``, as the authors' code does.

    Returns:
        The rating; None without one, or if it is above 1. The sources also count a rating above 1.

    >>> read_first_rating("Mostly right. [[0.7]]"), read_first_rating("Rating: [7]")
    (0.7, None)
    """
    match = _RE.first_double.search(verdict) or _RE.first_single.search(verdict)
    rating = float(match[1]) if match else None
    return None if rating is None or rating > LEVELS[-1] else rating


SCALE = RatingScale(read_rating, best=1)
_PAPER = JudgeProtocol(name=DEFAULT_PROTOCOL, prompt=_TEXTS["prompt"], scale=SCALE)
_AUTHORS = JudgeProtocol(name="authors", scale=RatingScale(read_first_rating, best=1), **_TEXTS["authors"])
_LMMS_EVAL = replace(
    _AUTHORS, name="lmms-eval-0.7.3", failed=-1, normalise=lambda x: x.lower().strip().replace(".", "")
)
PROTOCOLS = {protocol.name: protocol for protocol in (_PAPER, _AUTHORS, _LMMS_EVAL)}
