"""Read exported labels, and replace output folders atomically."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.outputs import check_own
from lmms_egoplan.validation import Kind, read_as

_UNFINISHED = ".unfinished."


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


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that atomically replaces `folder` at the end.

    If it stays empty, `folder` is removed.

    Unfinished folders of interrupted processes, in the same parent folder, are deleted.
    """
    for unfinished in folder.parent.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=_UNFINISHED, dir=folder.parent) as scratch:
        root = Path(scratch) / folder.name
        root.mkdir()
        yield root
        for path in folder.rglob("*"):
            check_own(path)
        if folder.exists():
            folder.rename(Path(scratch) / "former")
        if any(root.iterdir()):
            root.rename(folder)
