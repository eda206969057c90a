"""EgoThink's answers in files, as runs and other frameworks store them, and their ratings, by judges and by people."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import AfterValidator, Field

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.scoring import Answer, JudgedAnswer
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_csv, read_lines
from lmms_egoplan.report.samples import Origin, check_once, stored_lines, write_lines
from lmms_egoplan.text import cell_text, clean_text
from lmms_egoplan.validation import AnyText, Checked, Expected, Text, read_as

_TASKS = "egothink_"
_REPEATED = ("rating", "judgement", "judge", "error")
_HOW = 'give a harness\'s samples, or lines such as {"id": "existence/1", "answer": "Yes."}'


class StoredAnswer(Checked):
    """An answer as a file holds it.

    where: file and line, for messages.
    truncated: None where the file does not tell.
    reference: of the question, as the file holds it; None where it does not tell.
    rating, judge, repeats: whatever the file holds under these names, not checked; None without.
    prompts: whose prompts the model was asked in; None where the file does not tell.
    run: the run of the answer; None where it is unknown.
    """

    where: str
    id: AnyText
    answer: Annotated[AnyText, AfterValidator(clean_text)]
    truncated: bool | None = None
    reference: AnyText | None
    rating: Any = None
    judge: Annotated[Any, AfterValidator(lambda judge: clean_text(judge) if isinstance(judge, str) else judge)] = None
    prompts: AnyText | None = None
    repeats: Any = None
    run: Origin | None = None


def read_stored(paths: Iterable[Path]) -> list[StoredAnswer]:
    """Read answers in the order of the paths and of each file's lines, each id once.

    Args:
        paths: files, or folders for all sample files of a harness's EgoThink tasks below them. A file has JSON
            lines; each the log of a question by the harness, which holds the answer's record under ``score``, or
            the record itself: ``{"id": "existence/1", "answer": "Yes.", ...}``, which may have ``truncated``,
            ``rating`` and ``judge``.

    Raises:
        LmmsEgoplanError: a file cannot be read or holds something else (names the line and the field), an id is there
            twice, there are no answers, or they are of several versions of the tasks, as far as the results beside
            them tell.
    """
    answers: dict[str, StoredAnswer] = {}
    versions: dict[str, str] = {}
    for path in paths:
        for answer in (_stored_answer(*line) for line in stored_lines(path, _TASKS)):
            if answer.run and answer.run.version:
                versions.setdefault(answer.run.version, answer.where)
            earlier = answers.setdefault(answer.id, answer)
            if earlier is not answer:
                raise LmmsEgoplanError(
                    f"{answer.where}: id {answer.id!r} is already in {earlier.where}; give the answers of one run only"
                )
    if len(versions) > 1:
        named = ", ".join(f"{version} in {where}" for version, where in versions.items())
        raise LmmsEgoplanError(
            f"answers of several versions of the tasks, which do not compare: {named}; give one version's"
        )
    return list(answers.values())


def with_questions(stored: Sequence[StoredAnswer]) -> list[Answer]:
    """Add question and reference from the prepared data to answers; keep their order.

    Raises:
        LmmsEgoplanError: see `prepared_rows`.
    """
    return [
        Answer(answer.id, row["question"], row["answer"], answer.answer, answer.truncated, answer.prompts)
        for answer, row in zip(stored, prepared_rows(stored), strict=True)
    ]


def prepared_rows(stored: Sequence[StoredAnswer]) -> list[dict[str, Any]]:
    """Return the prepared question of each answer, without its image.

    Raises:
        DataMissingError: a dimension that is needed is not prepared.
        LmmsEgoplanError: it is damaged, an id is unknown, or its question was another one when the answer was given.
    """
    needed = {dimension_of(answer.id) for answer in stored}
    rows = {row["id"]: row for name in sorted(needed) for row in EGOTHINK.load(name).remove_columns("image")}
    for answer in stored:
        if answer.id not in rows:
            raise LmmsEgoplanError(f"{answer.where}: id {answer.id!r} is no question of the prepared data")
        reference = rows[answer.id]["answer"]
        if answer.reference not in (None, reference):
            raise LmmsEgoplanError(
                f"{answer.where}: the reference of {answer.id} is {answer.reference!r} there and {reference!r} in the "
                "prepared data; prepare the data that the run was made with"
            )
    return [rows[answer.id] for answer in stored]


def check_dimension(where: str, question_id: str) -> None:
    """Tells ids of EgoThink from others.

    Raises:
        LmmsEgoplanError: the id names no dimension.
    """
    if dimension_of(question_id) not in DIMENSION_NAMES:
        raise LmmsEgoplanError(
            f"{where}: id must be <dimension>/<number>, as existence/1, got {question_id!r}; dimensions: "
            f"{', '.join(DIMENSION_NAMES)}"
        )


def write_judged(path: Path, repeats: Sequence[Sequence[JudgedAnswer]], runs: Iterable[Origin | None] = ()) -> None:
    """Write judged answers as JSON lines, which `read_stored` reads.

    Args:
        repeats: of judging the same answers. A line is the first one's answer; with several, rating, reply, judge and
            error of each are its ``repeats``.
        runs: of the answers; fewer where they are unknown.

    Raises:
        OSError: the folder cannot be written.
    """
    records = [asdict(answer) for answer in repeats[0]]
    for record, same in zip(records, zip(*repeats, strict=True), strict=True) if len(repeats) > 1 else ():
        record["repeats"] = [{name: getattr(answer, name) for name in _REPEATED} for answer in same]
    write_lines(path, records, runs)


def _stored_answer(where: str, line: str, run: Origin | None) -> StoredAnswer:
    record = parse_record(where, line, _HOW)
    target = None
    if isinstance(record, dict) and isinstance(record.get("score"), dict):
        target = record.get("target") if isinstance(record.get("target"), str) else None
        record = record["score"]
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object with id and answer")
    known = {"where": where, "reference": target, "run": run or record.get("run")}
    stored = read_as(StoredAnswer, where, record | known)
    check_dimension(where, stored.id)
    return stored


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
        judged: Paths for `read_stored`, with ratings; each is one rater, named by its judge model.
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
    lines = read_csv(path, strict=True)
    _, header = next(lines, (1, []))
    columns = [cell_text(name) for name in header]
    names = [name for name in columns if name != "id"]
    if "id" not in columns or not names or not all(map(str.strip, names)) or len(set(columns)) < len(columns):
        raise LmmsEgoplanError(f"{path}, line 1: expected the columns id and a name for each rater, all different")
    raters: dict[str, Rated] = {name: {} for name in names}
    for number, cells in lines:
        where = f"{path}, line {number}"
        if len(cells) != len(columns):
            raise LmmsEgoplanError(f"{where}: not as many cells as the header has")
        row = dict(zip(columns, cells, strict=True))
        question = row["id"].strip()
        check_dimension(where, question)
        if question in raters[names[0]]:
            raise LmmsEgoplanError(f"{where}: id {question!r} is there twice")
        for name in names:
            raters[name][question] = _human_rating(f"{where}, column {name}", row[name])
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
