"""Define the protocols of the judge, and read its verdicts.

- ``paper``: the prompt of Table 7 with this project's reader, the default.
- ``authors``: AdaCheng/EgoThink, commit fbafe8f (``gen_judgment.py``, ``common.py``,
  ``judge_prompts.jsonl``).
- ``lmms-eval-0.7.3``: ``lmms_eval/tasks/egothink/utils.py`` of that version.

All of them ask up to three times for a rating, and read it after the model's thinking. ``paper``
accepts only `LEVELS`, the others any number from 0 to 1.
"""

import re
from dataclasses import replace

from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, JudgeProtocol, RatingScale
from lmms_egoplan.judging.verdicts import agreed_rating
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import compile_patterns

# The ratings that Table 7 allows.
LEVELS = (0.0, 0.5, 1.0)

_TEXTS = module_yaml(__file__)
_RE = compile_patterns(_TEXTS["patterns"], re.VERBOSE | re.IGNORECASE | re.MULTILINE)


def read_rating(verdict: str) -> float | None:
    r"""Read the rating in a judge's verdict by the rules of `judging.verdicts`: 0, 0.5 or 1.

    The example in the prompt (``for example: “Rating: [[0.5]]”``) is ignored, whatever its
    quotation marks. So is the text after a new ``[Question]`` or ``[Instruction]`` heading.

    >>> read_rating("The place differs, so [[1]] would be too much.\n\nRating: [[0.5]]")
    0.5
    >>> read_rating("Rating: [[0.7]]"), read_rating("It deserves [[1]].")
    (None, None)
    """
    new_prompt = _RE.new_prompt.search(verdict)
    text = verdict[: new_prompt.start()] if new_prompt else verdict
    return agreed_rating(_RE.example.sub("example", text), _level)


def _level(number: str) -> float | None:
    return float(number) if _RE.level.fullmatch(number) else None


def read_first_rating(verdict: str) -> float | None:
    """Read the first ``[[number]]`` of a verdict, otherwise the first ``[number]``, as the authors'
    code does.

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
_AUTHORS = JudgeProtocol(
    name="authors", scale=RatingScale(read_first_rating, best=1), **_TEXTS["authors"]
)
_LMMS_EVAL = replace(
    _AUTHORS,
    name="lmms-eval-0.7.3",
    failed=-1,
    normalise=lambda x: x.lower().strip().replace(".", ""),
)
PROTOCOLS = {protocol.name: protocol for protocol in (_PAPER, _AUTHORS, _LMMS_EVAL)}
