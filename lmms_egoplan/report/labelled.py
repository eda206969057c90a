"""Folders of labels by people, as ``lmms-egoplan annotate export`` writes them."""

from collections.abc import Iterable
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json

# The file that tells the benchmark of such a folder.
MARK = "annotation.json"


def labelled_folders(paths: Iterable[Path]) -> dict[Path, str]:
    """Those of the paths that are such folders, with their benchmarks.

    Raises:
        LmmsEgoplanError: a folder's mark cannot be read.
    """
    found = {}
    for path in paths:
        if (path / MARK).is_file():
            mark = read_json(path / MARK)
            if not isinstance(mark, dict) or not isinstance(mark.get("benchmark"), str):
                raise LmmsEgoplanError(f"{path / MARK}: expected an object with benchmark; export the labels again")
            found[path] = mark["benchmark"]
    return found
