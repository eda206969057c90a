"""Read exported labels."""

from collections.abc import Iterator
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.validation import Kind, read_as


def read_export(
    option: str, folder: Path, name: str, content: str, kind: type[Kind]
) -> Iterator[tuple[str, Kind]]:
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
        yield where, read_as(kind, where, parse_record(where, line))
