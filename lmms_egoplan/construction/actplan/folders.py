"""Read exported files, and replace output folders atomically."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import check_own

_UNFINISHED = ".unfinished."


def exported_file(option: str, folder: Path, name: str, content: str) -> Path:
    """Return the path of a file in an export of labels.

    Raises:
        LmmsEgoplanError: The folder does not contain it.
    """
    if (path := folder / name).is_file():
        return path
    advice = f"pass the folder that lmms-egoplan annotate export wrote for {content}"
    raise LmmsEgoplanError(f"{option} {folder}: contains no {name}; {advice}")


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that atomically replaces `folder` at the end; if it stays empty, `folder` is removed.

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
