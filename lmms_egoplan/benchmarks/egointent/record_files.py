"""The files of EgoIntent's annotations: JSON, JSON Lines, CSV, parquet, a folder or the hub's dataset.

The names of their keys tell what they mean (``record_files.yaml``). Which key was taken for which field is printed.
`datasets.load_dataset` would guess types, drop duplicate keys, and not tell the line of what is wrong.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lmms_egoplan.benchmarks.egointent.protocol import ALIASES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import JsonObject, decode_objects, parse, read_text
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.storage import without_bars
from lmms_egoplan.validation import listing, shown

HUB = "hub"
HUB_DATASET = "py2279105943/EgoIntent"

_FIELD_OF = {name: field for field, names in yaml_beside(__file__).items() for name in names}
_NEEDED = ("video_id", "start_sec", "end_sec", "local_intent", "global_intent", "next_step_plan")
NONE_GIVEN: Mapping[str, str] = MappingProxyType({})
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".parquet")
# Parts of one table, as the hub names them: test-00000-of-00002.parquet.
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=\.[a-z]+$)")


@dataclass(frozen=True)
class Raw:
    """One record, as its file has it.

    place: Names it in messages.
    value: The record; a ValueError for a line that is no JSON.
    fields: The field that each key means; empty for what is no object.
    """

    place: str
    value: Any
    fields: Mapping[str, str]


def load(source: str | Path, given: Mapping[str, str] = NONE_GIVEN) -> list[Raw]:
    """Read the records of a file, of the one table in a folder, or of the hub's dataset.

    Args:
        source: A file, by its suffix: any other than ``.csv`` and ``.parquet`` is JSON or JSON Lines. Or a folder, or
            `HUB`.
        given: See `fields_of_keys`.

    Raises:
        LmmsEgoplanError: Nothing can be read, no record has a given key, or a folder contains several tables of steps;
            names them.
    """
    path = _download() if str(source) == HUB else Path(source)
    records = _load_folder(path, given) if path.is_dir() else _load_file(path, given)
    if absent := given.keys() - {key for raw in records for key in raw.fields}:
        raise LmmsEgoplanError(f"{path}: --keys: no record has the key {', '.join(sorted(absent))}")
    return records


def _load_folder(path: Path, given: Mapping[str, str]) -> list[Raw]:
    tables = _tables(path)
    if not tables:
        raise LmmsEgoplanError(f"{path}: no file of {', '.join(_SUFFIXES)} in it or below")
    fitting: dict[str, list[Raw]] = {}
    others: list[str] = []
    for name, files in tables.items():
        records = [
            replace(raw, place=f"{file.relative_to(path)}, {raw.place}")
            for file in files
            for raw in _load_file(file, given)
        ]
        fields = next((raw.fields for raw in records if isinstance(raw.value, Mapping)), {})
        if absent := [field for field in _NEEDED if field not in fields.values()]:
            others.append(f"{name}: no {', '.join(absent)}; keys: {', '.join(map(shown, fields)) or 'none'}")
        else:
            fitting[name] = records
    if not fitting:
        raise LmmsEgoplanError(f"{path}: no table of steps:\n{listing(others)}")
    if len(fitting) > 1:
        names = "\n".join(f"  {name}: {len(records)} records" for name, records in fitting.items())
        raise LmmsEgoplanError(f"{path}: several tables of steps; give one of them as a file:\n{names}")
    (records,) = fitting.values()
    return records


def fields_of_keys(keys: Collection[str], given: Mapping[str, str] = NONE_GIVEN) -> dict[str, str]:
    """Return the field, or another name, that each key of a record means.

    Case does not matter, nor do blanks and hyphens instead of underscores. A key of FORMAT.md has priority over its
    variants.

    Args:
        keys: Keys of the record.
        given: Fields by keys that mean them, whatever other keys a record has.

    >>> fields_of_keys(["Step ID", "id", "video_uid", "Procedural Intent"])
    {'Step ID': 'step_id', 'id': 'id', 'video_uid': 'video_id', 'Procedural Intent': 'global_intent'}
    """
    plain = {key: re.sub(r"[\s_-]+", "_", key.strip().lower()) for key in keys}
    names = {key: ALIASES.get(name, name) for key, name in plain.items()}
    own = set(names.values())
    fields = {key: _FIELD_OF[name] if _FIELD_OF.get(name, name) not in own else name for key, name in names.items()}
    taken = {given[key] for key in keys if key in given}
    return {key: given.get(key, f"other {field}" if field in taken else field) for key, field in fields.items()}


def mapping_lines(records: Sequence[Raw], fields: Collection[str]) -> list[str]:
    """Format which key was taken for which field, with the number of records that have it; ignored keys come last."""
    counts = Counter(pair for raw in records for pair in raw.fields.items())
    lines = [f"{field}: {key} ({count})" for (key, field), count in counts.items() if field in fields]
    if ignored := sorted({key for key, field in counts if field not in fields}):
        lines.append(f"left out: {', '.join(ignored)}")
    return lines


def _tables(folder: Path) -> dict[str, list[Path]]:
    """List the files of each table below a folder, shards together, by a name of the table."""
    tables: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not any(part.startswith(".") for part in parts):
            tables.setdefault(_SHARD.sub("", "/".join(parts)), []).append(path)
    for name, files in tables.items():
        shards = [match for file in files if (match := _SHARD.search(file.name))]
        if shards and (len(shards) != len(files) or {int(match[2]) for match in shards} != {len(files)}):
            raise LmmsEgoplanError(
                f"{folder}: of {name} there are {len(files)} parts of {shards[0][2]}; download it again"
            )
    return tables


def _load_file(path: Path, given: Mapping[str, str]) -> list[Raw]:
    match path.suffix.lower():
        case ".csv":
            rows = csv.reader(io.StringIO(read_text(path, "annotations")))
            header = next(rows, [])
            values = [(f"line {rows.line_num}", _typed(header, row, given)) for row in rows if row]
        case ".parquet":
            values = _numbered("row", (_typed([*row], [*row.values()], given) for row in _read_parquet(path)))
        case _:
            values = _read_json(path, given)
    return [
        Raw(place, value, fields_of_keys(value, given) if isinstance(value, Mapping) else {}) for place, value in values
    ]


def _read_json(path: Path, given: Mapping[str, str]) -> list[tuple[str, Any]]:
    text = read_text(path, "annotations")
    if text.lstrip().startswith("["):
        return _numbered("record", parse(str(path), text))
    whole = _decode(text)
    if isinstance(whole, JsonObject):
        if set(fields_of_keys(whole, given).values()) & set(_NEEDED):
            return [(f"line {text[: text.index('{')].count(chr(10)) + 1}", whole)]
        lists = {key: value for key, value in whole.items() if isinstance(value, list)}
        if len(lists) > 1:
            raise LmmsEgoplanError(f"{path}: several lists of records, {', '.join(map(shown, lists))}; keep one")
        for key, records in lists.items():
            return _numbered(f"{key}, record", records)
    return [(f"line {number}", _decode(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _numbered(name: str, values: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"{name} {number}", value) for number, value in enumerate(values, 1)]


def _decode(text: str) -> Any:
    """Decode JSON; return a ValueError if the text is none."""
    try:
        return decode_objects(text)
    except ValueError as error:
        return ValueError(f"no JSON: {error}")


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise LmmsEgoplanError(f"{path}: cannot be read as parquet: {error}") from error


def _typed(keys: Sequence[str], cells: Sequence[Any], given: Mapping[str, str]) -> JsonObject | ValueError:
    """Convert a row of a table to a JSON object: without empty cells, texts of numbers and of truth values as such."""
    if len(cells) != len(keys):
        return ValueError(f"{len(cells)} cells under {len(keys)} columns")
    fields = fields_of_keys(keys, given)
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
    if field in ("start_sec", "end_sec"):
        try:
            return float(cell)
        except ValueError:
            return cell
    return {"true": True, "false": False}.get(cell.strip().lower(), cell) if field == "unverified" else cell


def _download() -> Path:
    from huggingface_hub import snapshot_download

    patterns = [f"*{suffix}" for suffix in _SUFFIXES]
    try:
        with without_bars():
            return Path(snapshot_download(HUB_DATASET, repo_type="dataset", allow_patterns=patterns))
    except Exception as error:  # the hub's client and its HTTP client have no common base class
        raise LmmsEgoplanError(
            f"{HUB_DATASET}: cannot load it from the hub: {error}\nWithout the hub: download the dataset elsewhere, "
            "and give its folder or its file of steps: lmms-egoplan data prepare egointent DIR --videos DIR"
        ) from error
