"""Folders that appear whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_UNFINISHED = ".unfinished."


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """An empty folder that takes another one's place at the end, whole; a folder that stays empty leaves none.

    What a process that was killed has left beside it is deleted.
    """
    for left in folder.parent.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=_UNFINISHED, dir=folder.parent) as scratch:
        root = Path(scratch) / folder.name
        root.mkdir()
        yield root
        if folder.exists():
            folder.rename(Path(scratch) / "former")
        if any(root.iterdir()):
            root.rename(folder)
