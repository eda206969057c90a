"""Read and write files of EgoThink answers, and their ratings by judges and people.

The answers come from runs and other frameworks.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.egothink.answers import Answer, JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.presets import preset_of_prompts
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member, parse_record, read_csv
from lmms_egoplan.judging.judgement import version_under
from lmms_egoplan.report.samples import Origin, is_sample, stored_lines, write_lines
from lmms_egoplan.text import cell_text, clean_text
from lmms_egoplan.validation import AnyText, Checked, Expected, Text, read_as

_TASKS = "egothink_"
_REPEATED = ("rating", "judgement", "judge", "error", "judge_prompt_tokens", "judge_reply_tokens")
_HOW = 'use samples of a harness, or lines like {"id": "existence/1", "answer": "Yes."}'


class StoredAnswer(Checked):
    """An answer from a file. All optional fields are None if the file does not contain them.

    Attributes:
        where: File and line, for messages.
        id: Id of the question.
        answer: Text of the answer.
        truncated: True if the limit on new tokens ended the answer.
        reference: Reference answer of the question.
        rating: Unchecked rating.
        judge: Unchecked name of the judge.
        prompts: Family of the prompts.
        repeats: Unchecked list of repeated judgements.
        run: Run of the answer.
    """

    where: str
    id: AnyText
    answer: Annotated[AnyText, AfterValidator(clean_text)]
    truncated: bool | None = None
    reference: AnyText | None
    rating: Any = None
    judge: Annotated[
        Any, AfterValidator(lambda judge: clean_text(judge) if isinstance(judge, str) else judge)
    ] = None
    prompts: AnyText | None = None
    repeats: Any = None
    run: Origin | None = None


def read_stored(paths: Iterable[Path]) -> list[StoredAnswer]:
    """Read answers in the order of the paths and of the lines in each file. Ids must be unique.

    Args:
        paths: Files of JSON lines, or folders, which are searched for sample files of EgoThink
            tasks. A line is either a harness's log of a question, with the record in its
            ``details``, or the record itself: ``{"id": "existence/1", "answer": "Yes.", ...}``,
            optionally with ``truncated``, ``rating`` and ``judge``.

    Raises:
        LmmsEgoplanError: A file is unreadable or malformed (the message names line and field), an
            id is duplicate, there are no answers, or the results next to the files name several
            versions of the tasks.
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
                    f"{answer.where}: duplicate id {answer.id!r}, also in "
                    f"{earlier.where}; use only one run's answers"
                )
    if len(versions) > 1:
        sources = ", ".join(f"{version} in {where}" for version, where in versions.items())
        raise LmmsEgoplanError(
            "answers are from different task versions, which are not comparable: "
            f"{sources}; use only one version"
        )
    return list(answers.values())


def preset_of(stored: Sequence[StoredAnswer]) -> str:
    """Return the preset whose tasks wrote all answers; "" if there is none."""
    presets = {preset_of_prompts(answer.prompts or "") for answer in stored}
    return presets.pop() if len(presets) == 1 else ""


def with_questions(stored: Sequence[StoredAnswer]) -> list[Answer]:
    """Add question and reference from the prepared data to answers, in the same order.

    Raises:
        LmmsEgoplanError: See `prepared_rows`.
    """
    return [
        Answer(
            answer.id,
            row["question"],
            row["answer"],
            answer.answer,
            answer.truncated,
            answer.prompts,
        )
        for answer, row in zip(stored, prepared_rows(stored), strict=True)
    ]


def prepared_rows(stored: Sequence[StoredAnswer]) -> list[dict[str, Any]]:
    """Return the prepared question of each answer, without its image.

    Raises:
        DataMissingError: A required dimension is not prepared.
        LmmsEgoplanError: A dimension is damaged, an id is unknown, or its reference differs from
            the run's reference.
    """
    needed = {dimension_of(answer.id) for answer in stored}
    rows = {
        row["id"]: row
        for name in sorted(needed)
        for row in EGOTHINK.load(name).remove_columns("image")
    }
    for answer in stored:
        if answer.id not in rows:
            raise LmmsEgoplanError(
                f"{answer.where}: id {answer.id!r} is not in the prepared data; use the run's data"
            )
        reference = rows[answer.id]["answer"]
        if answer.reference not in (None, reference):
            raise LmmsEgoplanError(
                f"{answer.where}: the reference of {answer.id} is {answer.reference!r}, but "
                f"{reference!r} in the prepared data; prepare the data that the run used"
            )
    return [rows[answer.id] for answer in stored]


def check_dimension(where: str, question_id: str) -> None:
    """Check that an id belongs to a dimension of EgoThink.

    Raises:
        LmmsEgoplanError: The id does not start with the name of a dimension.
    """
    if dimension_of(question_id) not in DIMENSION_NAMES:
        raise LmmsEgoplanError(
            f"{where}: id must be <dimension>/<number>, such as existence/1, got {question_id!r}; "
            f"dimensions: {', '.join(DIMENSION_NAMES)}"
        )


def write_judged(
    path: Path, repeats: Sequence[Sequence[JudgedAnswer]], runs: Iterable[Origin | None] = ()
) -> None:
    """Write judged answers as JSON lines for `read_stored`.

    Args:
        path: The output file.
        repeats: One list of judged answers per repeat. Each line is an answer of the first list. If
            there are several lists, ``repeats`` contains the rating, reply, judge, error and tokens
            of every repeat.
        runs: Run of each answer. The list may be shorter if the other runs are unknown. The version
            of the task that is written has the protocol of this judgement, not of the run's.

    Raises:
        OSError: The folder cannot be written.
    """
    records = [asdict(answer) for answer in repeats[0]]
    if len(repeats) > 1:
        for record, repeats_of_answer in zip(records, zip(*repeats, strict=True), strict=True):
            record["repeats"] = [_repeated_fields(answer) for answer in repeats_of_answer]
    judged_runs: list[Origin | None] = []
    for answer, run in zip(repeats[0], runs, strict=False):
        if run:
            version = version_under(answer.protocol, run.version)
            run = run.model_copy(update={"version": version})
        judged_runs.append(run)
    write_lines(path, records, judged_runs)


def _repeated_fields(answer: JudgedAnswer) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in _REPEATED}


def _stored_answer(where: str, line: str, run: Origin | None) -> StoredAnswer:
    record = parse_record(where, line, _HOW)
    target = None
    if is_sample(where, record, main_metric="score"):
        target = record.get("target") if isinstance(record.get("target"), str) else None
        record = member(record, DETAILS, "answer")
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object with id and answer; {_HOW}")
    defaults = {"where": where, "reference": target, "run": run or record.get("run")}
    stored = read_as(StoredAnswer, where, record | defaults)
    check_dimension(where, stored.id)
    return stored


Rated = dict[str, float | None]
"""Question id -> rating in [0, 1]; None for an unrated answer."""


# Name of the file with people's ratings in the output folder of ``annotate export``.
PEOPLE = "people.jsonl"


class RatedAnswer(Checked):
    """An answer with the mean of people's ratings, 0 to 1, from the file `PEOPLE`.

    Attributes:
        probability: Probability that the sample contains the answer; None without a random sample.
        planned: Size of the sample of the model's answers; None without a random sample.
    """

    id: Text
    model: Text
    answer: AnyText
    rating: Annotated[float, Field(ge=0, le=1), Expected("a number from 0 to 1")]
    probability: (
        Annotated[float, Field(gt=0, le=1), Expected("a number above 0, at most 1, or null")] | None
    ) = None
    planned: (
        Annotated[int, Field(ge=1), Expected("a number of answers, at least 1, or null")] | None
    ) = None

    @property
    def key(self) -> Hashable:
        """Values that identify the answer among those of all folders."""
        return self.id, self.model, self.answer


class _Rating(Checked):
    rating: Annotated[
        float, Field(ge=LEVELS[0], le=LEVELS[-1]), Expected("a number from 0 to 1, or null")
    ]
    judge: Annotated[str, Field(min_length=1), Expected("the name of the judge model")]


class _Repeat(Checked):
    rating: (
        Annotated[
            float, Field(ge=LEVELS[0], le=LEVELS[-1]), Expected("a number from 0 to 1, or null")
        ]
        | None
    )
    judge: Any = None


class _Repeated(Checked):
    repeats: list[_Repeat]


def between_levels(rated: Rated) -> dict[str, float]:
    """Return the ratings outside `LEVELS`.

    A mean of several raters has them, or a judge of a published protocol.
    """
    return {
        question: rating
        for question, rating in rated.items()
        if rating is not None and rating not in LEVELS
    }


def read_raters(judged: Sequence[Path], human: Path | None) -> dict[str, Rated]:
    """Read the ratings of every rater, by the rater's name.

    Args:
        judged: Paths for `read_stored` with ratings. Each is one rater, named after its judge
            model.
        human: File for `read_human`. Each column is one rater.

    Returns:
        Raters in the order of the paths, then people. Duplicate names get the file's stem as a
        suffix, or the whole path if they are still equal.

    Raises:
        LmmsEgoplanError: A file is unreadable or malformed, or two paths have different answers to
            a question.
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
        path: CSV with a column ``id`` and one column per rater, headed by the rater's name. A cell
            is 0, 0.5, 1 or, for an unrated answer, empty. In a column of means of several people,
            it is any number from 0 to 1. Names may be escaped as by `text.csv_text`.

    Raises:
        LmmsEgoplanError: The file is unreadable or malformed. The message names line and column.
    """
    lines = read_csv(path, strict=True)
    _, header = next(lines, (1, []))
    columns = [cell_text(name) for name in header]
    names = [name for name in columns if name != "id"]
    if (
        "id" not in columns
        or not names
        or not all(map(str.strip, names))
        or len(set(columns)) < len(columns)
    ):
        raise LmmsEgoplanError(
            f"{path}, line 1: expected a column id and one column per rater, with unique "
            "nonempty names"
        )
    raters: dict[str, Rated] = {name: {} for name in names}
    for number, cells in lines:
        where = f"{path}, line {number}"
        if len(cells) != len(columns):
            raise LmmsEgoplanError(
                f"{where}: expected {len(columns)} cells like the header, got {len(cells)}"
            )
        row = dict(zip(columns, cells, strict=True))
        question = row["id"].strip()
        check_dimension(where, question)
        if question in raters[names[0]]:
            raise LmmsEgoplanError(f"{where}: duplicate id {question!r}; remove one")
        for name in names:
            raters[name][question] = _human_rating(f"{where}, column {name}", row[name])
    return raters


def read_repeated(path: Path) -> tuple[dict[str, list[float | None]], str]:
    """Read each answer's ratings, one per repeat, by id. Also return the names of the judges.

    Raises:
        LmmsEgoplanError: The file is unreadable, an answer has fewer than two repeats, or their
            number varies.
    """
    ratings: dict[str, list[float | None]] = {}
    judges: set[str] = set()
    how = "use a file written by lmms-egoplan judge egothink --repeats"
    for stored in read_stored([path]):
        repeats = read_as(_Repeated, stored.where, {"repeats": stored.repeats}).repeats
        if len(repeats) < 2:
            raise LmmsEgoplanError(
                f"{stored.where}: repeats: expected two or more judgements; {how}"
            )
        first = next(iter(ratings.values()), None)
        if first is not None and len(repeats) != len(first):
            raise LmmsEgoplanError(
                f"{stored.where}: {len(repeats)} repeats, but earlier lines have {len(first)}; "
                f"{how}"
            )
        ratings[stored.id] = [repeat.rating for repeat in repeats]
        judges |= {str(repeat.judge) for repeat in repeats if repeat.rating is not None}
    return ratings, ", ".join(sorted(judges))


def _read_judged(path: Path, answers: dict[str, StoredAnswer]) -> tuple[str, Rated]:
    """Read a judge's name and its ratings.

    Adds the answers to `answers`, which is shared by all files.
    """
    rated: Rated = {}
    judges: dict[str, None] = {}
    for stored in read_stored([path]):
        first = answers.setdefault(stored.id, stored)
        if first.answer != stored.answer:
            raise LmmsEgoplanError(
                f"{stored.where}: the answer to {stored.id!r} differs from {first.where}; compare "
                "raters only on the same answers"
            )
        rated[stored.id] = stored.rating
        if stored.rating is not None:
            judges[
                read_as(
                    _Rating, stored.where, {"rating": stored.rating, "judge": stored.judge}
                ).judge
            ] = None
    if not judges:
        raise LmmsEgoplanError(
            f"{path}: no ratings. Judge the answers first: lmms-egoplan judge egothink "
            f"{path} --out FILE"
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
        raise LmmsEgoplanError(
            f"{where}: expected a number from 0 to 1 or an empty cell, got {cell!r}"
        )
    return rating
