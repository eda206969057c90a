"""Folders that appear whole or not at all, and that one process writes at a time."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import check_own

_UNFINISHED = ".unfinished."


def exported_file(option: str, folder: Path, name: str, what: str) -> Path:
    """Return a file of an export of labels.

    Raises:
        LmmsEgoplanError: the folder does not have it.
    """
    if (path := folder / name).is_file():
        return path
    advice = f"give the folder that lmms-egoplan annotate export wrote of {what}"
    raise LmmsEgoplanError(f"{option} {folder}: no {name} in it; {advice}")


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces another one at the end, whole; if it stays empty, none remains.

    What a process that was killed has left beside it is deleted.
    """
    for left in folder.parent.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)
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
