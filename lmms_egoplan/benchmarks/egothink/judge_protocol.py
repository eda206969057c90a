"""Define the prompts and protocols of the judge (Table 7), and read its verdicts.

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

# The ratings that Table 7 allows.
LEVELS = (0.0, 0.5, 1.0)

LEVEL = re.compile(r"[01](?:\.0*)?|0?\.50*")
"""A way to write one of `LEVELS`."""

EXAMPLE = re.compile(
    r"""
    (?: \b example | \b e\.?g\b\.? )             # "for example", "e.g."
    (?:                                         # then
        [ \t]* [:,(*_`"'“”„\u2018\u2019«「] [^\w.!?;]{0,12}  # punctuation, quotation marks
        | [ ]                                   # or one space
    )
    (?:                                         # "Rating:", if it is there
        rating
        [\s*_"'`”]{0,9} [:\uff1a=]? [\s*_"'`“]{0,9}
    )?
    \[\[ \s? 0\.5 \s? \]\]
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""The example in the prompt of Table 7, as judges quote it."""

NEW_PROMPT = re.compile(
    r"""
    (?: ^ | (?<=\])(?!\]) )  # at the start of a line, or directly after a rating
    [^\w\n]{0,20}            # markup
    \[ [^\w\n]{0,9} (?: question | instruction ) [^\w\n]{0,9} \]
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
"""A heading of the prompt, which begins another one."""

# one_score_pattern and one_score_pattern_backup in the authors' common.py, in the order in which
# they are tried.
FIRST_DOUBLE = re.compile(r"\[\[(\d+\.?\d*)\]\]")
FIRST_SINGLE = re.compile(r"\[(\d+\.?\d*)\]")

_TEXTS = module_yaml(__file__)


def read_rating(verdict: str) -> float | None:
    r"""Read the rating in a judge's verdict by the rules of `judging.verdicts`: 0, 0.5 or 1.

    The example in the prompt (``for example: “Rating: [[0.5]]”``) is ignored, whatever its
    quotation marks. So is the text after a new ``[Question]`` or ``[Instruction]`` heading.

    >>> read_rating("The place differs, so [[1]] would be too much.\n\nRating: [[0.5]]")
    0.5
    >>> read_rating("Rating: [[0.7]]"), read_rating("It deserves [[1]].")
    (None, None)
    """
    new_prompt = NEW_PROMPT.search(verdict)
    if new_prompt:
        verdict = verdict[: new_prompt.start()]
    return agreed_rating(EXAMPLE.sub("example", verdict), _level)


def _level(number: str) -> float | None:
    return float(number) if LEVEL.fullmatch(number) else None


def read_first_rating(verdict: str) -> float | None:
    """Read the first ``[[number]]`` of a verdict, otherwise the first ``[number]``.

    The authors' code does the same.

    Returns:
        The rating; None without one, or if it is above 1. The sources also count a rating above 1.

    >>> read_first_rating("Mostly right. [[0.7]]"), read_first_rating("Rating: [7]")
    (0.7, None)
    """
    match = FIRST_DOUBLE.search(verdict) or FIRST_SINGLE.search(verdict)
    if match is None:
        return None
    rating = float(match[1])
    return rating if rating <= LEVELS[-1] else None


def _normalise_reference(reference: str) -> str:
    """Change a reference as lmms-eval 0.7.3 does before it asks the judge."""
    return reference.lower().strip().replace(".", "")


SCALE = RatingScale(read_rating, best=1)
_PAPER = JudgeProtocol(name=DEFAULT_PROTOCOL, prompt=_TEXTS["prompt"], scale=SCALE)
_AUTHORS = JudgeProtocol(
    name="authors",
    prompt=_TEXTS["authors"]["prompt"],
    scale=RatingScale(read_first_rating, best=1),
    system=_TEXTS["authors"]["system"],
    parameters=_TEXTS["authors"]["parameters"],
    max_tokens=_TEXTS["authors"]["max_tokens"],
    sanitizes=_TEXTS["authors"]["sanitizes"],
)
_LMMS_EVAL = replace(_AUTHORS, name="lmms-eval-0.7.3", failed=-1, normalise=_normalise_reference)
PROTOCOLS = {protocol.name: protocol for protocol in (_PAPER, _AUTHORS, _LMMS_EVAL)}
