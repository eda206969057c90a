"""Build the requests for the judge, and read its verdicts (sec. 4.1).

In the paper, Qwen3 scores the semantic consistency of prediction and reference in each field. The
paper prints no prompt. The project's own are in ``judge_protocol.yaml``: one with the paper's
definitions of the fields, one with those of the release of August 2026.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from lmms_egoplan.benchmarks.egointent.prompts import ALIASES, FIELDS
from lmms_egoplan.judging.judgement import JudgeProtocol, RatingScale
from lmms_egoplan.judging.verdicts import agreed_rating, placed_ratings
from lmms_egoplan.paths import module_yaml

# Bump when a prompt or the reading of verdicts changes: ratings of different versions are not
# comparable. The release's prompt uses its definitions. If one request covers several fields, it
# also uses the release's field names.
JUDGE_VERSION = "1.4"
RELEASE_JUDGE_VERSION = "3.3"

_PROMPTS = module_yaml(__file__)

_NUMBER = re.compile(r"(?:[0-9]{1,2}|100)(?:\.[0-9]*)?")
_BEST = 100.0


@dataclass(frozen=True, kw_only=True)
class StepProtocol(JudgeProtocol):
    """A protocol whose prompt defines the rated fields.

    Attributes:
        setting: The first words of the prompt, about the step and its clip.
        definitions: Definition of each of `FIELDS`.
        labels: Name of each field in requests that cover several. A request about one field does
            not name it.
    """

    setting: str
    definitions: Mapping[str, str]
    labels: Mapping[str, str]


def judge_prompt(
    references: Mapping[str, str], predictions: Mapping[str, str], protocol: StepProtocol
) -> str:
    """Return the request to rate one field, or several in one request.

    Args:
        references: Texts by field, at least for the fields in `predictions`.
        predictions: Texts of one or more fields, by field, sanitized for the judge.
        protocol: One of `PROTOCOLS`.
    """
    fields = list(predictions)
    if len(fields) == 1:
        (field,) = fields
        return protocol.prompt.format(
            setting=protocol.setting,
            definition=protocol.definitions[field],
            rating=_PROMPTS["rating"],
            texts=_texts("", references[field], predictions[field]),
        )
    definitions: list[str] = []
    texts: list[str] = []
    verdicts: list[str] = []
    for field in fields:
        label = protocol.labels[field]
        definitions.append(f"{label}: {protocol.definitions[field]}")
        texts.append(_texts(f": {label}", references[field], predictions[field]))
        verdicts.append(f"[[{label}: n]]")
    return _PROMPTS["several"].format(
        setting=protocol.setting,
        definitions="\n".join(definitions),
        rating=_PROMPTS["rating"],
        texts="\n".join(texts),
        verdicts="\n".join(verdicts),
    )


def _texts(label: str, reference: str, prediction: str) -> str:
    return _PROMPTS["texts"].format(label=label, reference=reference, prediction=prediction)


def read_rating(verdict: str) -> float | None:
    r"""Read the rating of one field by the rules of `judging.verdicts`: a number from 0 to 100.

    >>> read_rating("The same action.\n[[85]]"), read_rating("Rating: [[85]]")
    (85.0, 85.0)
    >>> read_rating("I give [[85]].")
    """
    return agreed_rating(verdict, _number)


def read_ratings(verdict: str) -> dict[str, float]:
    """Read the ratings of several fields by the rules of `judging.verdicts`.

    They have the form ``[[field: n]]`` or ``field: [[n]]``. The field's name may be in any case,
    with blanks or hyphens, or one of `ALIASES`. A field is absent if its ratings differ, or if one
    of them is not a number from 0 to 100.
    """
    values_by_field: dict[str, set[float | None]] = {}
    for placed in placed_ratings(verdict):
        name = re.sub(r"[\W_]+", "_", placed.label.lower()).strip("_")
        field = ALIASES.get(name, name)
        values_by_field.setdefault(field, set()).add(_number(placed.number))
    ratings: dict[str, float] = {}
    for field in FIELDS:
        values = values_by_field.get(field, set())
        if len(values) == 1:
            (value,) = values
            if value is not None:
                ratings[field] = value
    return ratings


SCALE = RatingScale(read_rating, best=_BEST)
# Each is named after the version of its prompt. The task determines which one applies.
PROTOCOLS = {
    name: StepProtocol(
        name=name,
        prompt=_PROMPTS["one"],
        scale=SCALE,
        setting=texts["setting"],
        definitions=texts["definitions"],
        labels=texts["labels"],
    )
    for name, texts in _PROMPTS["protocols"].items()
}
PAPER = PROTOCOLS[JUDGE_VERSION]
RELEASE = PROTOCOLS[RELEASE_JUDGE_VERSION]


def scale_of(fields: Sequence[str]) -> RatingScale:
    """Return the scale for verdicts on these fields.

    One field uses `SCALE`. Several use the mean of their ratings, which exists only if all are
    rated. The scales of equal fields are the same object, because replies are counted by scale.
    """
    if len(fields) == 1:
        return SCALE
    return _mean_scale(tuple(fields))


@functools.cache
def _mean_scale(fields: tuple[str, ...]) -> RatingScale:
    return RatingScale(functools.partial(_mean_rating, fields), best=_BEST)


def _mean_rating(fields: Sequence[str], verdict: str) -> float | None:
    ratings = read_ratings(verdict)
    if not ratings.keys() >= set(fields):
        return None
    return fmean(ratings[field] for field in fields)


def _number(text: str) -> float | None:
    """Read a number on the scale; return None for anything else."""
    if not _NUMBER.fullmatch(text) or float(text) > _BEST:
        return None
    return float(text)
