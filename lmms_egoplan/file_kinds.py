"""Recognise kinds of record files by their keys, for messages about a wrong input file.

Each benchmark registers its own kinds: a module ``file_kinds.py`` in its folder lists them as
``FILE_KINDS``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError


@dataclass(frozen=True)
class FileKind:
    """A kind of record files.

    Attributes:
        order: Position in the order of recognition. If a record has the keys of several kinds, the
            kind with the lowest number counts.
        keys: Keys that identify the kind: its records have them all.
        name: Name in messages. ``{path}`` is the file's path.
        is_annotation: True if the file has the records of a dataset, which a command reads.
        judged: Name of the benchmark whose judged answers the file contains; "" if it has none.
    """

    order: int
    keys: frozenset[str]
    name: str
    is_annotation: bool = False
    judged: str = ""


RESULTS = FileKind(
    order=8,
    keys=frozenset({"results"}),
    name="results of a run; restore its original file name, or pass its folder",
)
SAMPLES = FileKind(
    order=9,
    keys=frozenset({"doc_id"}),
    name="samples of a harness; pass their folder, or the results file next to them",
)


@cache
def registered_kinds() -> tuple[FileKind, ...]:
    """Return the kinds of both harnesses and of all benchmarks, in the order of recognition."""
    kinds = [RESULTS, SAMPLES]
    benchmarks = Path(__file__).with_name("benchmarks")
    for path in benchmarks.glob("*/file_kinds.py"):
        module = import_module(f"lmms_egoplan.benchmarks.{path.parent.name}.file_kinds")
        kinds += module.FILE_KINDS
    return tuple(sorted(kinds, key=attrgetter("order")))


def kind_of(record: Any) -> FileKind | None:
    """Return the kind of a file with this first record; None if the kind is unknown.

    >>> kind_of({"doc_id": 0, "resps": []}).name
    'samples of a harness; pass their folder, or the results file next to them'
    """
    if not isinstance(record, Mapping):
        return None
    for kind in registered_kinds():
        if kind.keys <= record.keys():
            return kind
    return None


def check_kind(path: str | Path, records: Sequence[Any], expected: FileKind | None) -> None:
    """Check that a file with invalid records does not have the records of another dataset.

    Args:
        expected: The kind of file that the caller reads; None if it is not registered.

    Raises:
        LmmsEgoplanError: The records are those of another dataset. The message names it.
    """
    kind = kind_of(records[0]) if records else None
    if kind is not None and kind.is_annotation and kind != expected:
        raise LmmsEgoplanError(f"{path}: this looks like {kind.name}")
