"""Answers that a judge has rated several times, in files, and how far its ratings differ."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate

from lmms_egoplan.benchmarks.egothink.answer_files import read_stored
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.noise import Noise, noise, noise_of_average
from lmms_egoplan.storage import write_whole
from lmms_egoplan.validation import Checked, Expected, read_as

AVERAGE = "average"
_REPEATED = ("rating", "judgement", "judge", "error")


class _Repeat(Checked):
    rating: Annotated[float, Predicate(LEVELS.__contains__), Expected("0, 0.5, 1 or null")] | None
    judge: Any = None


class _Repeated(Checked):
    repeats: list[_Repeat]


def write_repeated(path: Path, repeats: Sequence[Sequence[JudgedAnswer]]) -> None:
    """Write the repeats of judging the same answers as JSON lines, which `read_stored` and `read_repeated` read.

    A line is the first repeat's judged answer, with rating, reply, judge and error of every repeat as ``repeats``.

    Raises:
        OSError: the folder cannot be written.
    """
    lines = (
        asdict(answer[0]) | {"repeats": [{name: getattr(repeat, name) for name in _REPEATED} for repeat in answer]}
        for answer in zip(*repeats, strict=True)
    )
    write_whole(path, "".join(f"{json.dumps(line)}\n" for line in lines))


def read_repeated(path: Path) -> tuple[dict[str, list[float | None]], str]:
    """The ratings of each answer by its id, one for each repeat, and the names of the judges.

    Raises:
        LmmsEgoplanError: the file cannot be read, or an answer was not judged as often as the others, at least twice.
    """
    ratings: dict[str, list[float | None]] = {}
    judges: set[str] = set()
    how = "give a file of lmms-egoplan judge egothink --repeats"
    for stored in read_stored([path]):
        repeats = read_as(_Repeated, stored.where, {"repeats": stored.repeats}).repeats
        if len(repeats) < 2:
            raise LmmsEgoplanError(f"{stored.where}: repeats: expected two or more judgements; {how}")
        if ratings and len(repeats) != (count := len(next(iter(ratings.values())))):
            raise LmmsEgoplanError(f"{stored.where}: {len(repeats)} repeats where the lines before have {count}; {how}")
        ratings[stored.id] = [repeat.rating for repeat in repeats]
        judges |= {str(repeat.judge) for repeat in repeats if repeat.rating is not None}
    return ratings, ", ".join(sorted(judges))


def noise_by_dimension(ratings: Mapping[str, Sequence[float | None]]) -> dict[str, Noise]:
    """Noise of each dimension that has answers, and of their plain mean as ``average``; scores are 0..100.

    Args:
        ratings: of each answer by its id, as many as there are repeats, at least two.
    """
    noises = {}
    for name in DIMENSION_NAMES:
        percent = [_percent(repeated) for question, repeated in ratings.items() if dimension_of(question) == name]
        if percent:
            noises[name] = noise(percent)
    return noises | {AVERAGE: noise_of_average(list(noises.values()))}


def _percent(ratings: Iterable[float | None]) -> list[float | None]:
    return [None if rating is None else 100 * rating for rating in ratings]
