# ruff: noqa: RUF001 - typographic quotation marks
"""Build the requests for the judge, and read its verdicts (sec. 4.1).

In the paper, Qwen3 scores the semantic consistency of prediction and reference in each field. The paper prints no
prompt. The project's own are in ``judge_protocol.yaml``: one with the paper's definitions of the fields, one with those
of the release of August 2026.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean

from lmms_egoplan.benchmarks.egointent.protocol import ALIASES, FIELDS
from lmms_egoplan.judging.judgement import JudgeProtocol, RatingScale
from lmms_egoplan.paths import module_yaml

# Bump when a prompt or the reading of verdicts changes: ratings of different versions are not comparable. The release's
# prompt uses its definitions. If one request covers several fields, it also uses the release's field names.
JUDGE_VERSION, RELEASE_JUDGE_VERSION = "1.3", "3.2"

_PROMPTS = module_yaml(__file__)

_NUMBER = re.compile(r"(?:[0-9]{1,2}|100)(?:\.[0-9]*)?")
_BEST = 100.0
_BRACKETED = re.compile(r"\[\[([^\[\]]*)\]\]")
# Characters that may surround ratings on their line: emphasis, quotation marks, a full stop.
_MARKS = " \t*_`\"'“”‘’„«»「」.。"
_ALONE = re.compile(rf"(?:\[\[[^\[\]]*\]\][{_MARKS}]*)+")
# Where a reply starts a new text: a heading or the first words of a prompt.
_NEW_TEXT = re.compile(
    r"^[^\w\n]{0,20}(?:\[(?:(?:start|end) of the|question|instruction)"
    r"|(?:question|user|human|reference|prediction|参考|参照)[^\w\n]{0,9}[:：]"
    r"|A person (?:\(the actor\) )?is performing|The images are frames)|<\|",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class StepProtocol(JudgeProtocol):
    """A protocol whose prompt defines the rated fields.

    Attributes:
        setting: The first words of the prompt, about the step and its clip.
        definitions: Definition of each of `FIELDS`.
        labels: Name of each field in requests that cover several. A request about one field does not name it.
    """

    setting: str
    definitions: Mapping[str, str]
    labels: Mapping[str, str]


def judge_prompt(references: Mapping[str, str], predictions: Mapping[str, str], protocol: StepProtocol) -> str:
    """Return the request to rate one field, or several in one request.

    Args:
        references: Texts by field, at least for the fields in `predictions`.
        predictions: Texts of one or more fields, by field, sanitized for the judge.
        protocol: One of `PROTOCOLS`.
    """
    fields, labels, definitions = list(predictions), protocol.labels, protocol.definitions
    texts = "\n".join(
        _PROMPTS["texts"].format(
            label=f": {labels[field]}" if len(fields) > 1 else "",
            reference=references[field],
            prediction=predictions[field],
        )
        for field in fields
    )
    rating = _PROMPTS["rating"]
    if len(fields) == 1:
        definition = definitions[fields[0]]
        return protocol.prompt.format(setting=protocol.setting, definition=definition, rating=rating, texts=texts)
    return _PROMPTS["several"].format(
        setting=protocol.setting,
        definitions="\n".join(f"{labels[field]}: {definitions[field]}" for field in fields),
        rating=rating,
        texts=texts,
        verdicts="\n".join(f"[[{labels[field]}: n]]" for field in fields),
    )


def read_rating(verdict: str) -> float | None:
    """Read the rating of one field: ``[[n]]``, a number from 0 to 100, alone on the last non-empty line.

    Only emphasis, quotation marks and a full stop may surround it. For any other verdict, return None.
    """
    contents = next(_last_lines(verdict), [])
    return _number(contents[0]) if len(contents) == 1 else None


def read_ratings(verdict: str) -> dict[str, float]:
    """Read the ratings of several fields: ``[[field: n]]``, numbers from 0 to 100, alone on the last lines.

    The field's name may be in any case, with blanks or hyphens, or one of `ALIASES`. A field is absent if the lines
    give different ratings for it, or a rating that is not a number on the scale.
    """
    ratings: dict[str, set[float | None]] = {}
    for content in chain.from_iterable(_last_lines(verdict)):
        name, colon, value = content.partition(":")
        if colon:
            plain = re.sub(r"[\s_-]+", "_", name.strip().lower())
            ratings.setdefault(ALIASES.get(plain, plain), set()).add(_number(value))
    unanimous = {field: next(iter(values)) for field, values in ratings.items() if len(values) == 1}
    return {field: rating for field in FIELDS if (rating := unanimous.get(field)) is not None}


SCALE = RatingScale(read_rating, best=_BEST)
# Each is named after the version of its prompt. The task determines which one applies.
_COMMON = {"prompt": _PROMPTS["one"], "scale": SCALE}
PROTOCOLS = {name: StepProtocol(name=name, **_COMMON, **texts) for name, texts in _PROMPTS["protocols"].items()}
PAPER, RELEASE = PROTOCOLS[JUDGE_VERSION], PROTOCOLS[RELEASE_JUDGE_VERSION]


def scale_of(fields: Sequence[str]) -> RatingScale:
    """Return the scale for verdicts on these fields.

    One field uses `SCALE`. Several use the mean of their ratings, which exists only if all are rated.
    """
    return SCALE if len(fields) == 1 else RatingScale(partial(_mean_rating, fields), best=_BEST)


def _mean_rating(fields: Sequence[str], verdict: str) -> float | None:
    ratings = read_ratings(verdict)
    return fmean(ratings[field] for field in fields) if ratings.keys() >= set(fields) else None


def _last_lines(verdict: str) -> Iterator[list[str]]:
    """Yield the contents of ``[[...]]`` on each of the last lines that contain nothing else, from the last line up.

    Yields nothing if the verdict starts a new text after a rating.
    """
    first = _BRACKETED.search(verdict)
    if first is None or _NEW_TEXT.search(verdict, first.end()):
        return
    for line in reversed(verdict.splitlines()):
        if plain := line.strip().strip(_MARKS):
            if not _ALONE.fullmatch(plain):
                return
            yield _BRACKETED.findall(plain)


def _number(text: str) -> float | None:
    """Read a number on the scale; return None for anything else."""
    plain = text.strip()
    return float(plain) if _NUMBER.fullmatch(plain) and float(plain) <= _BEST else None
