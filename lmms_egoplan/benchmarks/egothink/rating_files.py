"""EgoThink's ratings in files: by judge models, once or repeatedly, as judging writes them, and by people."""

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import Field

from lmms_egoplan.benchmarks.egothink.answer_files import StoredAnswer, check_dimension, read_stored
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines, read_text
from lmms_egoplan.report.labelled import check_once
from lmms_egoplan.text import cell_text
from lmms_egoplan.validation import AnyText, Checked, Expected, Text, read_as

Rated = dict[str, float | None]
"""Question, then rating in [0, 1]; None for an answer that was not rated."""


# The file of rated answers in an export of ``annotate export``.
PEOPLE = "people.jsonl"


class RatedAnswer(Checked):
    """An answer with the mean of people's ratings, 0 to 1, in the file `PEOPLE`."""

    id: Text
    model: Text
    answer: AnyText
    rating: Annotated[float, Field(ge=0, le=1), Expected("a number from 0 to 1")]


class _Rating(Checked):
    rating: Annotated[float, Field(ge=LEVELS[0], le=LEVELS[-1]), Expected("a number from 0 to 1, or null")]
    judge: Annotated[str, Field(min_length=1), Expected("the model that gave the rating")]


class _Repeat(Checked):
    rating: Annotated[float, Predicate(LEVELS.__contains__), Expected("0, 0.5, 1 or null")] | None
    judge: Any = None


class _Repeated(Checked):
    repeats: list[_Repeat]


def between_levels(rated: Rated) -> dict[str, float]:
    """Select the ratings that are none of `LEVELS`: such a rater's ratings are means of several raters'."""
    return {question: rating for question, rating in rated.items() if rating is not None and rating not in LEVELS}


def read_raters(judged: Sequence[Path], human: Path | None) -> dict[str, Rated]:
    """Read the ratings of every rater, by the rater's name.

    Args:
        judged: Paths for `answer_files.read_stored`, with ratings; each is one rater, named by its judge model.
        human: File for `read_human`; each column is one rater.

    Returns:
        Raters in the order of the paths, people last. The file's stem is added to equal names, and the whole path if
        that is not enough.

    Raises:
        LmmsEgoplanError: A file cannot be read or contains something else, or two paths have different answers to a
            question, so that their ratings cannot be compared.
    """
    answers: dict[str, StoredAnswer] = {}
    raters = [(*_read_judged(path, answers), path) for path in judged]
    if human is not None:
        raters += [(name, rated, human) for name, rated in read_human(human).items()]
    names = [name for name, _, _ in raters]
    for label in (lambda path: path.stem, str):
        counts = Counter(names)
        names = [
            f"{original} ({label(path)})" if counts[name] > 1 else name
            for name, (original, _, path) in zip(names, raters, strict=True)
        ]
    return {name: rated for name, (_, rated, _) in zip(names, raters, strict=True)}


def read_human(path: Path) -> dict[str, Rated]:
    """Read ratings by people, by the rater's name.

    Args:
        path: CSV with a column ``id`` and a column for each rater, headed by the rater's name. Cells are 0, 0.5, 1, or
            a number between them in a column of means of several people, or empty for an unrated answer. Names may be
            as `text.csv_text` writes them.

    Raises:
        LmmsEgoplanError: The file cannot be read or contains something else; names line and column.
    """
    lines = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        lines.fieldnames = [cell_text(name) for name in lines.fieldnames or ()]
        columns = list(lines.fieldnames or ())
        names = [name for name in columns if name != "id"]
        if "id" not in columns or not names or not all(map(str.strip, names)) or len(set(columns)) < len(columns):
            raise LmmsEgoplanError(f"{path}, line 1: expected the columns id and a name for each rater, all different")
        raters: dict[str, Rated] = {name: {} for name in names}
        for row in lines:
            where = f"{path}, line {lines.line_num}"
            if None in row or None in row.values():
                raise LmmsEgoplanError(f"{where}: not as many cells as the header has")
            question = row["id"].strip()
            check_dimension(where, question)
            if question in raters[names[0]]:
                raise LmmsEgoplanError(f"{where}: id {question!r} is there twice")
            for name in names:
                raters[name][question] = _human_rating(f"{where}, column {name}", row[name])
    except csv.Error as error:
        raise LmmsEgoplanError(f"{path}, after line {lines.line_num}: no CSV: {error}") from error
    return raters


def read_rated(folders: Sequence[Path]) -> list[RatedAnswer]:
    """Read the answers of all models that people rated.

    Args:
        folders: Exports of ``annotate export``.

    Raises:
        LmmsEgoplanError: A file cannot be read or contains something else, or two folders have the same answer; names
            the line.
    """
    rated = []
    folder_of: dict[tuple[str, str, str], Path] = {}
    for folder in folders:
        for where, line in read_lines(folder / PEOPLE) if (folder / PEOPLE).is_file() else ():
            answer = read_as(RatedAnswer, where, parse_record(where, line))
            first = folder_of.setdefault((answer.id, answer.model, answer.answer), folder)
            check_once(where, f"{answer.id} of {answer.model}", folder, first)
            rated.append(answer)
    return rated


def read_repeated(path: Path) -> tuple[dict[str, list[float | None]], str]:
    """Read the ratings of each answer by its id, one for each repeat, and the names of the judges.

    Raises:
        LmmsEgoplanError: The file cannot be read, or an answer was not judged as often as the others, at least twice.
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


def _read_judged(path: Path, answers: dict[str, StoredAnswer]) -> tuple[str, Rated]:
    """Read a judge's name and its ratings; `answers` collects the answers of all files."""
    rated: Rated = {}
    judges: dict[str, None] = {}
    for stored in read_stored([path]):
        first = answers.setdefault(stored.id, stored)
        if first.answer != stored.answer:
            raise LmmsEgoplanError(
                f"{stored.where}: another answer to {stored.id!r} than in {first.where}; raters can be compared on the "
                "same answers only"
            )
        rated[stored.id] = stored.rating
        if stored.rating is not None:
            judges[read_as(_Rating, stored.where, {"rating": stored.rating, "judge": stored.judge}).judge] = None
    if not judges:
        raise LmmsEgoplanError(
            f"{path}: no ratings in it. Judge the answers: lmms-egoplan judge egothink {path} --out FILE"
        )
    return ", ".join(judges), rated


def _human_rating(where: str, cell: str) -> float | None:
    if not cell.strip():
        return None
    try:
        rating = float(cell)
    except ValueError:
        rating = math.nan
    if not LEVELS[0] <= rating <= LEVELS[-1]:
        raise LmmsEgoplanError(f"{where}: expected a number from 0 to 1, or nothing, got {cell!r}")
    return rating
