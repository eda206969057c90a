"""Read the rows of EgoIntent's annotations, whatever the form of their files.

They are JSON, JSON Lines, CSV, parquet, a folder or the hub's dataset.

`OTHER_KEYS` lists the keys that each field may have. `data prepare` prints which key was used for
which field. `datasets.load_dataset` is not used: it guesses types, drops duplicate keys, and
reports errors without a line number.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.prompts import ALIASES, OUTCOME_KEY
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import (
    JsonObject,
    decode_objects,
    parse,
    read_csv,
    read_text,
)
from lmms_egoplan.storage import hub_files
from lmms_egoplan.validation import (
    listing,
    quoted,
)

HUB = "hub"
HUB_DATASET = "py2279105943/EgoIntent"

OTHER_KEYS = {
    "step_id": ("id", "sample_id", "item_id", "step_uid", "uid"),
    "video_id": ("video_uid", "video", "video_name", "video_file"),
    "start_sec": ("start", "start_time", "start_seconds", "start_time_sec", "start_s"),
    "end_sec": (
        "end",
        "end_time",
        "end_seconds",
        "end_time_sec",
        "end_s",
        "truncation_sec",
        "boundary_sec",
    ),
    "local_intent": ("local",),
    "global_intent": ("procedural", "global"),
    "next_step_plan": ("next", "next_action"),
    "scenario": ("scene",),
    "environment": ("env", "indoor_outdoor"),
}
"""Other keys of each field, read if the record has no key of FORMAT.md for the field.

The layout of the release on the hub is unknown, so fields are recognized by the names of their
keys.
"""

_FIELD_BY_OTHER_KEY = {key: field for field, keys in OTHER_KEYS.items() for key in keys}
_NEEDED = ("video_id", "start_sec", "end_sec", "local_intent", "global_intent", "next_step_plan")
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".parquet")
# Shards of one table, as the hub names them: test-00000-of-00002.parquet.
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=\.[a-z]+$)")


@dataclass(frozen=True)
class Raw:
    """One record as its file contains it.

    Attributes:
        location: Names the record in messages.
        value: The record; a ValueError for a line that is not JSON.
        fields: Field for each key of the record; empty if the value is not an object.
    """

    location: str
    value: Any
    fields: Mapping[str, str]


def load(source: str | Path, field_by_key: Mapping[str, str] | None = None) -> list[Raw]:
    """Read the records of a file, of the one table in a folder, or of the hub's dataset.

    Args:
        source: A file, a folder or `HUB`. The suffix decides how a file is read: ``.csv``,
            ``.parquet``, or JSON or JSON Lines for any other.
        field_by_key: See `fields_of_keys`.

    Raises:
        LmmsEgoplanError: Nothing can be read, no record has a key in `field_by_key`, or a folder
            contains several tables of steps; the message names them.
    """
    path = _download() if str(source) == HUB else Path(source)
    field_by_key = field_by_key or {}
    load_path = _load_folder if path.is_dir() else _load_file
    records = load_path(path, field_by_key)
    keys = {key for raw in records for key in raw.fields}
    absent_keys = field_by_key.keys() - keys
    if absent_keys:
        raise LmmsEgoplanError(
            f"{path}: --keys: no record has the key {', '.join(sorted(absent_keys))}"
        )
    return records


def _load_folder(path: Path, field_by_key: Mapping[str, str]) -> list[Raw]:
    tables = _tables(path)
    if not tables:
        raise LmmsEgoplanError(
            f"{path}: found no {', '.join(_SUFFIXES)} file, here or in subfolders"
        )
    step_tables: dict[str, list[Raw]] = {}
    other_tables: list[str] = []
    for name, files in tables.items():
        records = [
            replace(raw, location=f"{file.relative_to(path)}, {raw.location}")
            for file in files
            for raw in _load_file(file, field_by_key)
        ]
        fields = next((raw.fields for raw in records if isinstance(raw.value, Mapping)), {})
        absent_fields = [field for field in _NEEDED if field not in fields.values()]
        if absent_fields:
            other_tables.append(
                f"{name}: no {', '.join(absent_fields)}; keys: "
                f"{', '.join(map(quoted, fields)) or 'none'}"
            )
        else:
            step_tables[name] = records
    if not step_tables:
        raise LmmsEgoplanError(f"{path}: no table of steps:\n{listing(other_tables)}")
    if len(step_tables) > 1:
        names = "\n".join(
            f"  {name}: {len(records)} records" for name, records in step_tables.items()
        )
        raise LmmsEgoplanError(f"{path}: several tables of steps; use one as a file:\n{names}")
    (records,) = step_tables.values()
    return records


def fields_of_keys(
    keys: Collection[str], field_by_key: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the field for each key of a record. An ignored key gets a name that is no field.

    Case is ignored, and blanks and hyphens count as underscores. A key of FORMAT.md has priority
    over its variants.

    Args:
        keys: Keys of the record.
        field_by_key: The user's choice of fields by key. These keys have priority over all others.

    >>> fields_of_keys(["Step ID", "id", "video_uid"])
    {'Step ID': 'step_id', 'id': 'id', 'video_uid': 'video_id'}
    >>> fields_of_keys(["Procedural Intent"])
    {'Procedural Intent': 'global_intent'}
    """
    names: dict[str, str] = {}
    for key in keys:
        normalized = re.sub(r"[\s_-]+", "_", key.strip().lower())
        names[key] = ALIASES.get(normalized, normalized)
    exact_names = set(names.values())
    requested = {key: field for key, field in (field_by_key or {}).items() if key in keys}
    displaced = set(requested.values())
    fields: dict[str, str] = {}
    for key, name in names.items():
        field = _FIELD_BY_OTHER_KEY.get(name, name)
        if field in exact_names:
            field = name
        if requested.get(key):
            fields[key] = requested[key]
        elif field in displaced:
            fields[key] = f"other {field}"
        else:
            fields[key] = field
    return fields


def mapping_lines(records: Sequence[Raw], fields: Collection[str]) -> list[str]:
    """List which key was used for each field, with the number of records that have it.

    Ignored keys come last.
    """
    counts = Counter(pair for raw in records for pair in raw.fields.items())
    lines = [
        f"{field}: {key} ({count})" for (key, field), count in counts.items() if field in fields
    ]
    ignored = sorted({key for key, field in counts if field not in fields})
    if ignored:
        lines.append(f"ignored: {', '.join(ignored)}")
    return lines


def _tables(folder: Path) -> dict[str, list[Path]]:
    """List the files of each table below a folder by table name.

    The shards of a table are grouped.
    """
    tables: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if (
            path.suffix.lower() in _SUFFIXES
            and path.is_file()
            and not any(part.startswith(".") for part in parts)
        ):
            tables.setdefault(_SHARD.sub("", "/".join(parts)), []).append(path)
    for name, files in tables.items():
        shards = [match for file in files for match in _SHARD.finditer(file.name)]
        if not shards:
            continue
        stated_counts = {int(match[2]) for match in shards}
        if len(shards) != len(files) or stated_counts != {len(files)}:
            raise LmmsEgoplanError(
                f"{folder}: {name} has {len(files)} of {shards[0][2]} parts; download "
                "the missing ones"
            )
    return tables


def _load_file(path: Path, field_by_key: Mapping[str, str]) -> list[Raw]:
    match path.suffix.lower():
        case ".csv":
            rows = read_csv(path, "annotations")
            _, header = next(rows, (0, []))
            values = [(f"line {number}", _typed(header, row, field_by_key)) for number, row in rows]
        case ".parquet":
            values = _numbered(
                "row",
                (_typed([*row], [*row.values()], field_by_key) for row in _read_parquet(path)),
            )
        case _:
            values = _read_json(path, field_by_key)
    return [
        Raw(
            location,
            value,
            fields_of_keys(value, field_by_key) if isinstance(value, Mapping) else {},
        )
        for location, value in values
    ]


def _read_json(path: Path, field_by_key: Mapping[str, str]) -> list[tuple[str, Any]]:
    text = read_text(path, "annotations")
    if text.lstrip().startswith("["):
        return _numbered("record", parse(str(path), text))
    content = _decode(text)
    if isinstance(content, JsonObject):
        if set(fields_of_keys(content, field_by_key).values()) & set(_NEEDED):
            return [(f"line {text[: text.index('{')].count(chr(10)) + 1}", content)]
        lists = {key: value for key, value in content.items() if isinstance(value, list)}
        if len(lists) > 1:
            raise LmmsEgoplanError(
                f"{path}: several lists of records, {', '.join(map(quoted, lists))}; keep only one"
            )
        for key, records in lists.items():
            return _numbered(f"{key}, record", records)
    return [
        (f"line {number}", _decode(line))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]


def _numbered(name: str, values: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"{name} {number}", value) for number, value in enumerate(values, 1)]


def _decode(text: str) -> Any:
    """Decode JSON; return a ValueError if the text is not JSON."""
    try:
        return decode_objects(text)
    except ValueError as error:
        return ValueError(f"not valid JSON: {error}")


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise LmmsEgoplanError(f"{path}: cannot be read as parquet: {error}") from error


def _typed(
    keys: Sequence[str], cells: Sequence[Any], field_by_key: Mapping[str, str]
) -> JsonObject | ValueError:
    """Convert a table row to a JSON object.

    Empty cells are dropped, and numbers and truth values are converted from text.
    """
    if len(cells) != len(keys):
        return ValueError(f"{len(cells)} cells under {len(keys)} columns")
    fields = fields_of_keys(keys, field_by_key)
    values = ((key, _value(fields[key], cell)) for key, cell in zip(keys, cells, strict=True))
    record = JsonObject((key, value) for key, value in values if value is not None)
    record.repeated = tuple({key for key in keys if keys.count(key) > 1})
    return record


def _value(field: str, cell: Any) -> Any:
    if field in ("step_id", "video_id") and isinstance(cell, int):
        return str(cell)
    if not isinstance(cell, str):
        return cell
    if not cell.strip():
        return None
    if field in ("start_sec", "end_sec", OUTCOME_KEY):
        return _number(cell)
    if field == "unverified":
        return {"true": True, "false": False}.get(cell.strip().lower(), cell)
    return cell


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _download() -> Path:
    from huggingface_hub import snapshot_download

    patterns = [f"*{suffix}" for suffix in _SUFFIXES]
    try:
        with hub_files():
            return Path(
                snapshot_download(HUB_DATASET, repo_type="dataset", allow_patterns=patterns)
            )
    except Exception as error:  # the hub client and its HTTP client share no base class
        raise LmmsEgoplanError(
            f"{HUB_DATASET}: cannot download it from the hub: {error}. To prepare without the hub, "
            "copy the dataset to this machine and run: lmms-egoplan data prepare egointent DIR "
            "--videos DIR"
        ) from error
