"""Recognise kinds of record files by their keys, for messages about a wrong input file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import module_yaml

_KINDS: list[dict[str, Any]] = module_yaml(__file__)


def kind_of(record: Any) -> dict[str, Any]:
    """Return the entry of ``file_kinds.yaml`` for a file's first record; an empty one for an
    unknown kind.

    >>> kind_of({"doc_id": 0, "resps": []})["name"]
    'samples of a harness; pass their folder, or the results file next to them'
    """
    keys = set(record) if isinstance(record, Mapping) else set()
    return next((kind for kind in _KINDS if keys.issuperset(kind["keys"])), {})


def check_kind(path: str | Path, records: Sequence[Any], reader: type) -> None:
    """Check that a file with invalid records is not of a kind that another class reads.

    Args:
        reader: the benchmark's class that reads the file's records.

    Raises:
        LmmsEgoplanError: another class reads such files. The message says what the file looks like.
    """
    kind = kind_of(records[0] if records else None)
    reader_name = f"{reader.__module__.split('.')[2]}.{reader.__name__}"
    if kind.get("record", reader_name) != reader_name:
        raise LmmsEgoplanError(f"{path}: this looks like {kind['name']}")
