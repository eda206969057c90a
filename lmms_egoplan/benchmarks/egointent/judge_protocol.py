"""What a judge is asked about a prediction, and how its verdict is read (sec. 4.1).

The paper has Qwen3 score the semantic consistency of prediction and reference in each field, and prints no prompt:
the project's own stand in ``judge_protocol.yaml``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from lmms_egoplan.benchmarks.egointent.protocol import ALIASES, FIELDS
from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.paths import yaml_beside

# Goes up with every change of the prompts or of how a verdict is read: ratings of different versions do not compare.
# The release's differs from the paper's in the names of the fields, where one request is about several.
JUDGE_VERSION, RELEASE_JUDGE_VERSION = "1", "2"

_PROMPTS = yaml_beside(__file__)

_BRACKETED = re.compile(r"\[\[([^\[\]]*)\]\]")
_NUMBER = re.compile(r"(?:[0-9]{1,2}|100)(?:\.[0-9]*)?")
_BEST = 100.0


def judge_prompt(
    references: Mapping[str, str], predictions: Mapping[str, str], names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The request to rate one field, or several at once.

    Args:
        references: texts by field, at least of the fields in `predictions`.
        predictions: texts by field, of one field or more; as a judge may be shown them.
        names: what the request calls a field, where not by its name; a request about one field names none.
    """
    fields = list(predictions)
    called = {field: names.get(field, field) for field in fields}
    texts = "\n".join(
        _PROMPTS["texts"].format(
            label=f": {called[field]}" if len(fields) > 1 else "",
            reference=references[field],
            prediction=predictions[field],
        )
        for field in fields
    )
    rating, definitions = _PROMPTS["rating"], _PROMPTS["definitions"]
    if len(fields) == 1:
        return _PROMPTS["one"].format(definition=definitions[fields[0]], rating=rating, texts=texts)
    return _PROMPTS["several"].format(
        definitions="\n".join(f"{called[field]}: {definitions[field]}" for field in fields),
        rating=rating,
        texts=texts,
        verdicts="\n".join(f"[[{called[field]}: n]]" for field in fields),
    )


def read_rating(verdict: str) -> float | None:
    """The rating of one field: the last ``[[n]]`` of the verdict, a number from 0 to 100.

    None where the last ``[[...]]`` holds anything else, whatever was said before.
    """
    bracketed = _BRACKETED.findall(verdict)
    return _number(bracketed[-1]) if bracketed else None


def read_ratings(verdict: str) -> dict[str, float]:
    """The ratings of several fields: of each the last ``[[field: n]]`` of the verdict, a number from 0 to 100.

    The field's name may be in any case, with blanks or hyphens, or one of `ALIASES`. A field is absent where its last
    ``[[field: ...]]`` holds anything else.
    """
    last = {}
    for content in _BRACKETED.findall(verdict):
        name, colon, value = content.partition(":")
        if colon:
            plain = re.sub(r"[\s_-]+", "_", name.strip().lower())
            last[ALIASES.get(plain, plain)] = _number(value)
    return {field: rating for field in FIELDS if (rating := last.get(field)) is not None}


SCALE = RatingScale(read_rating, best=_BEST)


def scale_of(fields: Sequence[str]) -> RatingScale:
    """How verdicts on these fields are read: `SCALE` for one; of several the mean, and only where all are rated."""
    return SCALE if len(fields) == 1 else RatingScale(_mean_reader(fields), best=_BEST)


def _mean_reader(fields: Sequence[str]) -> Callable[[str], float | None]:
    def read(verdict: str) -> float | None:
        ratings = read_ratings(verdict)
        return fmean(ratings[field] for field in fields) if ratings.keys() >= set(fields) else None

    return read


def _number(text: str) -> float | None:
    """A number on the scale; None for anything else."""
    plain = text.strip()
    number = float(plain) if _NUMBER.fullmatch(plain) else None
    return number if number is not None and number <= _BEST else None
