"""EgoThink's answers in files: what a run or another framework has stored, and what judging writes."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.scoring import Answer, JudgedAnswer
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record
from lmms_egoplan.report.logged_samples import Origin, stored_lines, write_lines
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import AnyText, Checked, read_as

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
