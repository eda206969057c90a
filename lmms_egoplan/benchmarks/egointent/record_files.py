"""The files that EgoIntent's annotations come in: JSON, JSON Lines, CSV, parquet, a folder or the hub's dataset.

The layout of the release on the hub is not known here. What its keys mean is told by their names; what was taken for
what is kept, to be shown.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
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
NONE_GIVEN: Mapping[str, str] = MappingProxyType({})
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


def load(source: str | Path, given: Mapping[str, str] = NONE_GIVEN) -> list[Raw]:
    """The records of a file, of the one table in a folder, or of the hub's dataset.

    Args:
        source: a file, by its suffix; any other than ``.csv`` and ``.parquet`` is JSON or JSON Lines. Or a folder, or
            `HUB`.
        given: see `fields_of_keys`.

    Raises:
        LmmsEgoplanError: nothing can be read, no record has a given key, or a folder holds several tables of steps;
            names them.
    """
    if str(source) == HUB:
        source = _download()
    path = Path(source)
    if not path.is_dir():
        return _with_keys(path, _load_file(path, given), given)
    tables = _tables(path)
    if not tables:
        raise LmmsEgoplanError(f"{path}: no file of {', '.join(_SUFFIXES)} in it or below")
    fitting: dict[str, list[Raw]] = {}
    others: list[str] = []
    for name, files in tables.items():
        records = [
            Raw(f"{file.relative_to(path)}, {raw.place}", raw.value)
            for file in files
            for raw in _load_file(file, given)
        ]
        first = next((raw.value for raw in records if isinstance(raw.value, Mapping)), {})
        absent = [field for field in _NEEDED if field not in set(fields_of_keys(first, given).values())]
        if absent:
            others.append(f"{name}: no {', '.join(absent)}; keys: {', '.join(map(shown, first)) or 'none'}")
        else:
            fitting[name] = records
    if len(fitting) == 1:
        return _with_keys(path, next(iter(fitting.values())), given)
    if fitting:
        names = "\n".join(f"  {name}: {len(records)} records" for name, records in fitting.items())
        raise LmmsEgoplanError(f"{path}: several tables of steps; give one of them as a file:\n{names}")
    raise LmmsEgoplanError(f"{path}: no table of steps:\n{listing(others)}")


def fields_of_keys(keys: Collection[str], given: Mapping[str, str] = NONE_GIVEN) -> dict[str, str]:
    """The field, or another name, that each key of a record means.

    Case, and blanks and hyphens for underscores, do not matter. A key of FORMAT.md comes before its variants.

    Args:
        given: fields by keys that stand for them, whatever other keys a record has.

    >>> fields_of_keys(["Step ID", "id", "video_uid", "Procedural Intent"])
    {'Step ID': 'step_id', 'id': 'id', 'video_uid': 'video_id', 'Procedural Intent': 'global_intent'}
    """
    plain = {key: re.sub(r"[\s_-]+", "_", key.strip().lower()) for key in keys}
    names = {key: ALIASES.get(name, name) for key, name in plain.items()}
    own = set(names.values())
    fields = {key: _FIELD_OF[name] if _FIELD_OF.get(name, name) not in own else name for key, name in names.items()}
    taken = {given[key] for key in keys if key in given}
    return {key: given.get(key, f"other {field}" if field in taken else field) for key, field in fields.items()}


def mapping_lines(records: Sequence[Raw], fields: Collection[str], given: Mapping[str, str] = NONE_GIVEN) -> list[str]:
    """What was taken for what, a line for each key and how many records have it; keys that were left out come last."""
    objects = [raw.value for raw in records if isinstance(raw.value, Mapping)]
    counts = Counter(pair for keys in objects for pair in fields_of_keys(keys, given).items())
    lines = [f"{field}: {key} ({count})" for (key, field), count in counts.items() if field in fields]
    if left := sorted({key for key, field in counts if field not in fields}):
        lines.append(f"left out: {', '.join(left)}")
    return lines


def _tables(folder: Path) -> dict[str, list[Path]]:
    """The files of each table below a folder, shards together, by a name of the table."""
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


def _with_keys(path: Path, records: list[Raw], given: Mapping[str, str]) -> list[Raw]:
    if absent := given.keys() - {key for raw in records if isinstance(raw.value, Mapping) for key in raw.value}:
        raise LmmsEgoplanError(f"{path}: --keys: no record has the key {', '.join(sorted(absent))}")
    return records


def _load_file(path: Path, given: Mapping[str, str]) -> list[Raw]:
    return {".csv": _load_csv, ".parquet": _load_parquet}.get(path.suffix.lower(), _load_json)(path, given)


def _load_json(path: Path, given: Mapping[str, str]) -> list[Raw]:
    text = read_text(path, "annotations")
    if text.lstrip().startswith("["):
        return [Raw(f"record {number}", raw) for number, raw in enumerate(parse(str(path), text), 1)]
    whole = _decode(text)
    if isinstance(whole, JsonObject):
        if set(fields_of_keys(whole, given).values()) & set(_NEEDED):
            return [Raw(f"line {text[: text.index('{')].count(chr(10)) + 1}", whole)]
        lists = {key: value for key, value in whole.items() if isinstance(value, list)}
        if len(lists) > 1:
            raise LmmsEgoplanError(f"{path}: several lists of records, {', '.join(map(shown, lists))}; keep one")
        for key, records in lists.items():
            return [Raw(f"{key}, record {number}", raw) for number, raw in enumerate(records, 1)]
    return [Raw(f"line {number}", _decode(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _decode(text: str) -> Any:
    """What a text is as JSON; a ValueError where it is none."""
    try:
        return decode_objects(text)
    except ValueError as error:
        return ValueError(f"no JSON: {error}")


def _load_csv(path: Path, given: Mapping[str, str]) -> list[Raw]:
    rows = csv.reader(io.StringIO(read_text(path, "annotations")))
    header = next(rows, [])
    return [Raw(f"line {rows.line_num}", _typed(header, row, given)) for row in rows if row]


def _load_parquet(path: Path, given: Mapping[str, str]) -> list[Raw]:
    import pyarrow
    from pyarrow import parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise LmmsEgoplanError(f"{path}: cannot be read as parquet: {error}") from error
    return [Raw(f"row {number}", _typed([*row], [*row.values()], given)) for number, row in enumerate(rows, 1)]


def _typed(keys: Sequence[str], cells: Sequence[Any], given: Mapping[str, str]) -> JsonObject | ValueError:
    """A row of a table as JSON would have it: without empty cells; a text of a number or of truth is that."""
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

    from lmms_egoplan.storage import without_bars

    patterns = [f"*{suffix}" for suffix in _SUFFIXES]
    try:
        with without_bars():
            return Path(snapshot_download(HUB_DATASET, repo_type="dataset", allow_patterns=patterns))
    except Exception as error:  # the hub's client and its HTTP client have no common base class
        raise LmmsEgoplanError(
            f"{HUB_DATASET}: cannot load it from the hub: {error}\nWithout the hub: download the dataset elsewhere, "
            "and give its folder or its file of steps: lmms-egoplan data prepare egointent DIR --videos DIR"
        ) from error
