"""Folders of labels by people, as ``lmms-egoplan annotate export`` writes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json

# The file that tells the benchmark of such a folder.
MARK = "annotation.json"


@dataclass(frozen=True)
class Mark:
    """What such a folder tells of itself.

    files: names of what the export wrote there; None where it does not tell.
    is_finished: false while an export is being written.
    """

    benchmark: str
    files: tuple[str, ...] | None
    is_finished: bool


def read_mark(folder: Path) -> Mark | None:
    """What a folder tells of itself; None where it is no such folder.

    Raises:
        LmmsEgoplanError: its mark cannot be read.
    """
    path = folder / MARK
    if not path.is_file():
        return None
    mark = read_json(path)
    if not isinstance(mark, dict) or not isinstance(mark.get("benchmark"), str):
        raise LmmsEgoplanError(f"{path}: expected an object with benchmark; export the labels again")
    files = mark.get("files")
    if files is not None and not (isinstance(files, list) and all(map(_is_name, files))):
        raise LmmsEgoplanError(f"{path}: files: expected names of files; export the labels again into another folder")
    return Mark(mark["benchmark"], None if files is None else tuple(files), mark.get("finished", True) is True)


def labelled_folders(paths: Iterable[Path]) -> dict[Path, str]:
    """Those of the paths that are such folders, with their benchmarks.

    Raises:
        LmmsEgoplanError: a folder's mark cannot be read, or its export was not finished.
    """
    found = {}
    for path in paths:
        if (mark := read_mark(path)) is not None:
            if not mark.is_finished:
                raise LmmsEgoplanError(f"{path}: the export was not finished; export the labels again")
            found[path] = mark.benchmark
    return found


def check_once(where: str, what: str, folder: Path, first: Path) -> None:
    """Check that a label is in one folder alone, where it would count twice.

    Args:
        where: the line that has it.
        first: the first of the folders that have it.

    Raises:
        LmmsEgoplanError: another folder has it, too.
    """
    if folder != first:
        raise LmmsEgoplanError(
            f"{where}: {what} is labelled in {first}, too; it would count twice. Give one of the two"
        )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name
