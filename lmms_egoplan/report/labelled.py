"""Folders of labels by people, as ``lmms-egoplan annotate export`` writes them."""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.outputs import check_own, delete

# The file that names the benchmark of such a folder.
MARK = "annotation.json"
_UNFINISHED = ".export."


@dataclass(frozen=True)
class Mark:
    """The content of a folder's mark.

    files: names of the export's files; None if unknown.
    is_finished: false while an export is being written.
    """

    benchmark: str
    files: tuple[str, ...] | None
    is_finished: bool


def read_mark(folder: Path) -> Mark | None:
    """Read a folder's mark; None if it has none.

    Raises:
        LmmsEgoplanError: the mark cannot be read.
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


def write_folder(out: Path, benchmark: str, texts: Mapping[str, str]) -> None:
    """Write a folder of labels for reports; replace the files of an earlier export.

    If the process is killed, the mark says that the export is not finished.

    Raises:
        LmmsEgoplanError: the folder has another benchmark's labels, or a file that no export wrote.
        OSError: the folder cannot be written.
    """
    mark = read_mark(out)
    if mark is not None and mark.benchmark != benchmark:
        raise LmmsEgoplanError(f"--out {out}: holds labels of {mark.benchmark}, not of {benchmark}; name a new folder")
    earlier = (mark and mark.files) or ()
    out.mkdir(parents=True, exist_ok=True)
    for unfinished in out.glob(f"{_UNFINISHED}*"):  # of a killed process
        shutil.rmtree(unfinished)
    with TemporaryDirectory(prefix=_UNFINISHED, dir=out) as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_bytes(text.encode())
        content = {"benchmark": benchmark, "files": sorted({*texts, *earlier}), "finished": False}
        write_whole(out / MARK, json.dumps(content) + "\n")
        delete(out / name for name in {*earlier} - texts.keys())
        for name in texts:
            check_own(out / name)
            (Path(folder) / name).replace(out / name)
    write_whole(out / MARK, json.dumps(content | {"files": sorted(texts), "finished": True}) + "\n")


def labelled_folders(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the folders of labels among some paths, with their benchmarks.

    Raises:
        LmmsEgoplanError: a folder's mark cannot be read, or its export was not finished.
    """
    benchmarks = {}
    for path in paths:
        if (mark := read_mark(path)) is not None:
            if not mark.is_finished:
                raise LmmsEgoplanError(f"{path}: the export was not finished; export the labels again")
            benchmarks[path] = mark.benchmark
    return benchmarks


def check_once(where: str, what: str, folder: Path, first: Path) -> None:
    """Check that a label is in only one folder: else it would count twice.

    Args:
        where: its line.
        first: the first folder with the label.

    Raises:
        LmmsEgoplanError: the folder is another one.
    """
    if folder != first:
        raise LmmsEgoplanError(
            f"{where}: {what} is labelled in {first}, too; it would count twice. Give one of the two"
        )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name
