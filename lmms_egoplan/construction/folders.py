"""Read exported labels."""

from collections.abc import Iterator
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.validation import Record, read_as


def read_export(
    option: str, folder: Path, name: str, content: str, record_type: type[Record]
) -> Iterator[tuple[str, Record]]:
    """Yield the records of a file from ``annotate export``, each after its location for messages.

    Raises:
        LmmsEgoplanError: The folder does not contain the file, or the file has another format; the
            error names the line.
    """
    path = folder / name
    if not path.is_file():
        advice = f"pass the folder that lmms-egoplan annotate export wrote for {content}"
        raise LmmsEgoplanError(f"{option} {folder}: contains no {name}; {advice}")
    for where, line in read_lines(path):
        yield where, read_as(record_type, where, parse_record(where, line))
