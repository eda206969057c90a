"""EgoThink's answers in files: what a run or another framework has stored, and what judging writes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.scoring import Answer, JudgedAnswer
from lmms_egoplan.benchmarks.egothink.splits import PREPARED
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, parse_record, read_lines
from lmms_egoplan.report.logged_samples import HOW_TO_LOG, SampleFile, find_sample_files, sample_file
from lmms_egoplan.report.task_versions import logged_version
from lmms_egoplan.storage import write_whole
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import AnyText, Checked, read_as

_TASKS = "egothink_"
_HOW = 'give a harness\'s samples, or lines such as {"id": "existence/1", "answer": "Yes."}'


class StoredAnswer(Checked):
    """An answer as a file holds it.

    where: file and line, for messages.
    truncated: None where the file does not tell.
    reference: of the question, as the file holds it; None where it does not tell.
    rating, judge, repeats: whatever the file holds under these names, not checked; None without.
    prompts: whose prompts the model was asked in; None where the file does not tell.
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


def read_stored(paths: Iterable[Path]) -> list[StoredAnswer]:
    """Answers in the order of the paths and of each file's lines, each id once.

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
    paths = list(paths)
    _check_versions([file for path in paths for file in _sample_files(path)])
    for path in paths:
        for answer in _read_path(path):
            earlier = answers.setdefault(answer.id, answer)
            if earlier is not answer:
                raise LmmsEgoplanError(
                    f"{answer.where}: id {answer.id!r} is already in {earlier.where}; give the answers of one run only"
                )
    return list(answers.values())


def with_questions(stored: Sequence[StoredAnswer]) -> list[Answer]:
    """The same answers, in the same order, with question and reference from the prepared data.

    Raises:
        DataMissingError: a dimension that is needed is not prepared.
        LmmsEgoplanError: it is damaged, an id is unknown, or its question was another one when the answer was given.
    """
    needed = {dimension_of(answer.id) for answer in stored}
    rows = {
        row["id"]: row
        for name in sorted(needed)
        for row in PREPARED.load(name).select_columns(["id", "question", "answer"])
    }
    answers = []
    for answer in stored:
        if answer.id not in rows:
            raise LmmsEgoplanError(f"{answer.where}: id {answer.id!r} is no question of the prepared data")
        question, reference = rows[answer.id]["question"], rows[answer.id]["answer"]
        if answer.reference not in (None, reference):
            raise LmmsEgoplanError(
                f"{answer.where}: the reference of {answer.id} is {answer.reference!r} there and {reference!r} in the "
                "prepared data; prepare the data that the run was made with"
            )
        answers.append(Answer(answer.id, question, reference, answer.answer, answer.truncated, answer.prompts))
    return answers


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


def write_judged(path: Path, judged: Iterable[JudgedAnswer]) -> None:
    """Write judged answers as JSON lines, which `read_stored` reads.

    Raises:
        OSError: the folder cannot be written.
    """
    write_whole(path, "".join(f"{answer.to_text()}\n" for answer in judged))


def _sample_files(path: Path) -> list[SampleFile]:
    named = sample_file(path)
    return find_sample_files(path, _TASKS) if path.is_dir() else [named] if named else []


def _check_versions(files: Iterable[SampleFile]) -> None:
    """The tasks have one version, all twelve."""
    first: dict[str, SampleFile] = {}
    for file in files:
        try:
            version = logged_version(decode(file.results.read_bytes()), file.task)
        except (OSError, ValueError):
            continue
        if version is not None:
            first.setdefault(version, file)
    if len(first) > 1:
        versions = ", ".join(f"{version} in {file.path}" for version, file in first.items())
        raise LmmsEgoplanError(
            f"answers of several versions of the tasks, which do not compare: {versions}; give one version's"
        )


def _read_path(path: Path) -> list[StoredAnswer]:
    files = [file.path for file in find_sample_files(path, _TASKS)] if path.is_dir() else [path]
    answers = [_stored_answer(where, line) for file in files for where, line in read_lines(file)]
    if not answers:
        what = f"no samples of {_TASKS}* below it" if path.is_dir() else "no answers in it"
        raise LmmsEgoplanError(f"{path}: {what}; {HOW_TO_LOG}")
    return answers


def _stored_answer(where: str, line: str) -> StoredAnswer:
    record = parse_record(where, line, _HOW)
    target = None
    if isinstance(record, dict) and isinstance(record.get("score"), dict):
        target = record.get("target") if isinstance(record.get("target"), str) else None
        record = record["score"]
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object with id and answer")
    stored = read_as(StoredAnswer, where, record | {"where": where, "reference": target})
    check_dimension(where, stored.id)
    return stored
