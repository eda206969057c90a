"""The files that EgoIntent's annotations come in: JSON, JSON Lines, CSV, parquet, a folder or the hub's dataset.

The layout of the release on the hub is not known here. What its keys mean is told by their names; what was taken for
what is kept, to be shown.
"""

import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.protocol import ALIASES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import JsonObject, decode_objects, parse, read_text
from lmms_egoplan.validation import listing, shown

HUB = "hub"
HUB_DATASET = "py2279105943/EgoIntent"

# Other keys of a record's fields, where no key of FORMAT.md gives the field.
VARIANTS = {
    "step_id": ("id", "sample_id", "item_id", "step_uid", "uid"),
    "video_id": ("video_uid", "video", "video_name", "video_file"),
    "start_sec": ("start", "start_time", "start_seconds", "start_time_sec", "start_s"),
    "end_sec": ("end", "end_time", "end_seconds", "end_time_sec", "end_s", "truncation_sec", "boundary_sec"),
    "local_intent": ("local",),
    "global_intent": ("procedural", "global"),
    "next_step_plan": ("next", "next_action"),
    "scenario": ("scene",),
    "environment": ("env", "indoor_outdoor"),
}
_FIELD_OF = {variant: field for field, variants in VARIANTS.items() for variant in variants}
_NEEDED = ("video_id", "start_sec", "end_sec", "local_intent", "global_intent", "next_step_plan")
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".parquet")
# Parts of one table, as the hub names them: test-00000-of-00002.parquet.
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=\.[a-z]+$)")


@dataclass(frozen=True)
class Raw:
    """One record, as its file has it.

    place: names it in messages.
    value: what was read; a ValueError where a line is no JSON.
    """

    place: str
    value: Any


def load(source: str | Path) -> list[Raw]:
    """The records of a file, of the one table in a folder, or of the hub's dataset.

    Args:
        source: a file, by its suffix; any other than ``.csv`` and ``.parquet`` is JSON or JSON Lines. Or a folder, or
            `HUB`.

    Raises:
        LmmsEgoplanError: nothing can be read, or a folder holds several tables of steps; names them.
    """
    if str(source) == HUB:
        source = _download()
    path = Path(source)
    if not path.is_dir():
        return list(_load_file(path))
    tables = {name: [*map(Path, files)] for name, files in _tables(path).items()}
    if not tables:
        raise LmmsEgoplanError(f"{path}: no file of {', '.join(_SUFFIXES)} in it or below")
    fitting, others = {}, {}
    for name, files in tables.items():
        records = [
            Raw(f"{file.relative_to(path)}, {raw.place}", raw.value) for file in files for raw in _load_file(file)
        ]
        first = next((raw.value for raw in records if isinstance(raw.value, Mapping)), {})
        absent = [field for field in _NEEDED if field not in set(fields_of_keys(first).values())]
        if absent:
            others[name] = f"{name}: no {', '.join(absent)}; keys: {', '.join(map(shown, first)) or 'none'}"
        else:
            fitting[name] = records
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    if fitting:
        names = "\n".join(f"  {name}: {len(records)} records" for name, records in fitting.items())
        raise LmmsEgoplanError(f"{path}: several tables of steps; give one of them as a file:\n{names}")
    raise LmmsEgoplanError(f"{path}: no table of steps:\n{listing([*others.values()])}")


def plain_key(key: str) -> str:
    """A key in lower case, with underscores for blanks and hyphens; an alias as the field that it names."""
    name = re.sub(r"[\s_-]+", "_", key.strip().lower())
    return ALIASES.get(name, name)


def fields_of_keys(keys: Collection[str]) -> dict[str, str]:
    """The field, or another name, that each key of a record means.

    A key of FORMAT.md comes before its variants.

    >>> fields_of_keys(["Step ID", "id", "video_uid", "Procedural Intent"])
    {'Step ID': 'step_id', 'id': 'id', 'video_uid': 'video_id', 'Procedural Intent': 'global_intent'}
    """
    plain = {key: plain_key(key) for key in keys}
    own = set(plain.values())
    return {
        key: _FIELD_OF[name] if name in _FIELD_OF and _FIELD_OF[name] not in own else name
        for key, name in plain.items()
    }


def mapping_lines(records: Sequence[Raw], fields: Collection[str]) -> list[str]:
    """What was taken for what, a line for each key and how many records have it; keys that were left out come last."""
    counts: dict[tuple[str, str], int] = {}
    for raw in records:
        if isinstance(raw.value, Mapping):
            for key, field in fields_of_keys(raw.value).items():
                counts[key, field] = counts.get((key, field), 0) + 1
    lines = [f"{field}: {key} ({count})" for (key, field), count in counts.items() if field in fields]
    if left := sorted({key for key, field in counts if field not in fields}):
        lines.append(f"left out: {', '.join(left)}")
    return lines


def _tables(folder: Path) -> dict[str, list[str]]:
    """The files of each table below a folder, shards together, by a name of the table."""
    tables: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not any(part.startswith(".") for part in parts):
            tables.setdefault(_SHARD.sub("", "/".join(parts)), []).append(str(path))
    for name, files in tables.items():
        shards = [match for match in map(_SHARD.search, files) if match]
        if shards and (len(shards) != len(files) or {int(match[2]) for match in shards} != {len(files)}):
            raise LmmsEgoplanError(
                f"{folder}: of {name} there are {len(files)} parts of {shards[0][2]}; download it again"
            )
    return tables


def _load_file(path: Path) -> Iterator[Raw]:
    match path.suffix.lower():
        case ".csv":
            return _load_csv(path)
        case ".parquet":
            return _load_parquet(path)
    return _load_json(path)


def _load_json(path: Path) -> Iterator[Raw]:
    text = read_text(path, "annotations")
    start = text.lstrip()[:1]
    if start == "[":
        yield from (Raw(f"record {number}", raw) for number, raw in enumerate(parse(str(path), text), 1))
        return
    whole = _object(text) if start == "{" else None
    if whole is not None and not set(fields_of_keys(whole).values()) & set(_NEEDED):
        lists = {key: value for key, value in whole.items() if isinstance(value, list)}
        if len(lists) > 1:
            raise LmmsEgoplanError(f"{path}: several lists of records, {', '.join(map(shown, lists))}; keep one")
        for key, records in lists.items():
            yield from (Raw(f"{key}, record {number}", raw) for number, raw in enumerate(records, 1))
        if lists:
            return
    elif whole is not None:
        yield Raw(f"line {text[: text.index('{')].count(chr(10)) + 1}", whole)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield Raw(f"line {number}", decode_objects(line))
            except ValueError as error:
                yield Raw(f"line {number}", ValueError(f"no JSON: {error}"))


def _object(text: str) -> JsonObject | None:
    """The one object that a text is; None for any other."""
    try:
        content = decode_objects(text)
    except ValueError:
        return None
    return content if isinstance(content, JsonObject) else None


def _load_csv(path: Path) -> Iterator[Raw]:
    rows = csv.reader(io.StringIO(read_text(path, "annotations")))
    header = next(rows, [])
    for row in rows:
        if not row:
            continue
        place = f"line {rows.line_num}"
        if len(row) != len(header):
            yield Raw(place, ValueError(f"{len(row)} cells under {len(header)} columns"))
        else:
            yield Raw(place, _typed(zip(header, row, strict=True)))


def _load_parquet(path: Path) -> Iterator[Raw]:
    import pyarrow
    from pyarrow import parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise LmmsEgoplanError(f"{path}: cannot be read as parquet: {error}") from error
    for number, row in enumerate(rows, 1):
        yield Raw(f"row {number}", _typed(row.items()))


def _typed(cells: Any) -> JsonObject:
    """A row of a table as JSON would have it: without empty cells; a text of a number or of truth is that."""
    pairs = list(cells)
    keys = [key for key, _ in pairs]
    fields = fields_of_keys(keys)
    values = ((key, _value(fields[key], cell)) for key, cell in pairs)
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
    if field == "unverified" and cell.strip().lower() in ("true", "false"):
        return json.loads(cell.strip().lower())
    return cell


def _download() -> Path:
    from huggingface_hub import snapshot_download

    from lmms_egoplan.storage import without_bars

    patterns = [f"*{suffix}" for suffix in _SUFFIXES]
    try:
        with without_bars():
            return Path(snapshot_download(HUB_DATASET, repo_type="dataset", allow_patterns=patterns))
    except Exception as error:  # the hub's client and its HTTP client have no common base class
        raise LmmsEgoplanError(
            f"{HUB_DATASET}: cannot load it from the hub: {error}\nWithout the hub: download the dataset elsewhere, "
            "and give its folder or its file of steps: lmms-egoplan data prepare egointent --source DIR --videos DIR"
        ) from error
