"""Define a question, and read the published file."""

from pathlib import Path

from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.validation import Checked, Text, read_as


class Record(Checked):
    """One question.

    Attributes:
        id: Unique id.
        image: Name of the picture's file.
        question: Question, verbatim.
        answer: The right choice, and the reference for the judge.
        wrong: The other choice.
    """

    id: Text
    image: Text
    question: Text
    answer: Text
    wrong: Text


def read_records(folder: Path) -> list[Record]:
    """Read the questions of a folder.

    Raises:
        LmmsEgoplanError: A record has another form. The message names file, record and field.
    """
    lines = read_lines(folder / "questions.jsonl")
    return [read_as(Record, where, parse_record(where, line)) for where, line in lines]


def read_image(folder: Path, record: Record) -> bytes:
    """Read the picture of a question.

    Raises:
        LmmsEgoplanError: The file is no image.
    """
    path = resolve_inside(folder, record.image)
    data = path.read_bytes()
    check_image(data, f"{path}, question {record.id}")
    return data
