"""EgoIntent's annotations: the files (JSON, JSON Lines, CSV, parquet, a folder, the hub), and checking every record.

The keys of a file tell what they mean (``records.yaml``). Which key was taken for which field is printed.
`datasets.load_dataset` would guess types, drop duplicate keys, and not name the line of what is wrong.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import AfterValidator, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egointent.protocol import ALIASES, FIELDS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.file_kinds import check_kind
from lmms_egoplan.jsonl import REPEATED, JsonObject, check_record, decode_objects, parse, read_csv, read_text
from lmms_egoplan.paths import LMMS_EVAL_TASKS, yaml_beside
from lmms_egoplan.storage import without_bars
from lmms_egoplan.validation import Checked, Expected, Seconds, Text, expected, is_text, listing, shown

HUB = "hub"
HUB_DATASET = "py2279105943/EgoIntent"

_FIELD_OF = {name: field for field, names in yaml_beside(__file__).items() for name in names}
_NEEDED = ("video_id", "start_sec", "end_sec", "local_intent", "global_intent", "next_step_plan")
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


def load(source: str | Path, given: Mapping[str, str] | None = None) -> list[Raw]:
    """Read the records of a file, of the one table in a folder, or of the hub's dataset.

    Args:
        source: A file, by its suffix: any other than ``.csv`` and ``.parquet`` is JSON or JSON Lines. Or a folder, or
            `HUB`.
        given: See `fields_of_keys`.

    Raises:
        LmmsEgoplanError: Nothing can be read, no record has a given key, or a folder contains several tables of steps;
            names them.
    """
    path, given = _download() if str(source) == HUB else Path(source), given or {}
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


def fields_of_keys(keys: Collection[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
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
    taken = {key: given[key] for key in keys if key in given} if given else {}
    other = {field: f"other {field}" for field in taken.values()}
    return {key: taken.get(key) or other.get(field, field) for key, field in fields.items()}


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
            rows = read_csv(path, "annotations")
            _, header = next(rows, (0, []))
            values = [(f"line {number}", _typed(header, row, given)) for number, row in rows]
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


GOALSTEP_URL = "https://github.com/facebookresearch/ego4d-goalstep"
# What a record, a run or a table is of whose steps and labels are Goal-Step's, not the benchmark's.
GOALSTEP_STEPS = "Goal-Step steps"
ENVIRONMENTS = ("indoor", "outdoor")
# Describes the file to users.
FORMAT = LMMS_EVAL_TASKS / "egointent" / "FORMAT.md"

# Becomes a file name, with ".mp4" behind it.
VIDEO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,127}")
# Goal-Step's ids: a UUID, of a grouped video behind "grp-".
_GOALSTEP_VIDEO_ID = re.compile(r"(grp-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VIDEO_NAME = "a video's file name without .mp4, of letters, digits and . _ - and blanks"
UNKNOWN = "unknown"
"""Scenario and environment of prepared steps whose annotations do not name them."""

Label = Annotated[Text, AfterValidator(str.strip)]
"""A text, without the blanks around it."""


class Record(Checked):
    """One step.

    step_id: Unique in its file; the only part of the record that a model is told.
    start_sec, end_sec: Seconds of the video that may be seen, ``0 <= start_sec < end_sec``; a frame at `end_sec`,
        the truncation point (sec. 3.3), is not seen any more.
    local_intent, global_intent, next_step_plan: The references (sec. 3.2).
    scenario: The place, one of 15 in the paper (Fig. 7: Yard ... Bedroom); None for a Goal-Step step, or if unknown.
    environment: ``"indoor"`` or ``"outdoor"``; None if unknown.
    event, goal: Of the whole video, if the file contains them.
    unverified: Nobody has verified the labels; they come from other annotations.
    category: Category of the video's goal, for a Goal-Step step; None for a step of the benchmark.
    origin: Where the step comes from, if it is not the benchmark's.
    """

    step_id: Annotated[str, Predicate(str.strip), Predicate(str.isprintable), Expected("a text in one line")]
    video_id: Annotated[str, Predicate(VIDEO_ID.fullmatch), Expected(_VIDEO_NAME)]
    start_sec: Seconds
    end_sec: Seconds
    local_intent: Label
    global_intent: Label
    next_step_plan: Label
    scenario: Label | None = None
    environment: Annotated[
        str | None,
        AfterValidator(lambda text: text and text.strip().lower()),
        Predicate((None, *ENVIRONMENTS).__contains__),
        Expected(" or ".join(ENVIRONMENTS)),
    ] = None
    event: Annotated[Label | None, Expected("a text or nothing")] = None
    goal: Annotated[Label | None, Expected("a text or nothing")] = None
    unverified: bool = False
    category: Label | None = None
    origin: Label | None = None

    @field_validator("end_sec")
    @classmethod
    def _check_end(cls, end: float, info: ValidationInfo) -> float:
        start = info.data.get("start_sec", -1.0)
        if not start < end:
            raise expected(f"a time after start_sec, {start}")
        return end

    @property
    def is_goalstep(self) -> bool:
        """Whether it is made of Ego4D Goal-Step's annotations (`goalstep.build_records`)."""
        return self.category is not None


def step_prefix(video_uid: str) -> str:
    """Start the step ids of a video: the first eight characters of Goal-Step's uids, a digest of any other name."""
    if _GOALSTEP_VIDEO_ID.fullmatch(video_uid):
        return video_uid[:8]
    return hashlib.sha256(video_uid.encode()).hexdigest()[:8]


def read_annotations(path: str | Path) -> list[Record]:
    """Read an annotation file and check every record of it.

    Args:
        path: See `load`. Keys are the names of `Record`'s fields, `ALIASES` or those in ``records.yaml``, in any case,
            with blanks or hyphens for underscores; others are ignored. Blanks around texts are dropped, and the
            environment's case does not matter.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: The file cannot be read, mixes the benchmark's steps and Goal-Step's, or records are wrong;
            names the first 20 problems, each with the line or the record's number (from 1), step_id, field and value,
            and their total.
    """
    return check_records(path, load(path))


def check_records(path: str | Path, loaded: Sequence[Raw]) -> list[Record]:
    """Check records that `load` has read; raises as `read_annotations`.

    Args:
        path: Names the file in messages.
        loaded: The file's records.
    """
    records: list[Record] = []
    problems: list[str] = []
    first_use: dict[str, str] = {}
    for raw in loaded:
        if not isinstance(raw.value, JsonObject):
            is_error = isinstance(raw.value, ValueError)
            problem = str(raw.value) if is_error else f"expected an object, found {shown(raw.value)}"
            problems.append(f"{raw.place}: {problem}")
            continue
        values, flaws = _by_field(raw)
        # Next to a scenario, a category is one of the keys that are ignored.
        is_goalstep = values.get("scenario") is None and values.get("category") is not None
        record, more = check_record(Record, values if is_goalstep else values | {"category": None})
        flaws += more
        step_id = values.get("step_id")
        if isinstance(step_id, str) and is_text(step_id) and (named := _told_by(step_id, values)):
            flaws.append(
                f"step_id: the model is told it, and it must not tell {', '.join(named)}; found {shown(step_id)}"
            )
        if isinstance(step_id, str) and (other := first_use.setdefault(step_id, raw.place)) != raw.place:
            flaws.append(f"step_id: already used by {other}")
        problems += [f"{raw.place}, step_id {shown(step_id)}, {flaw}" for flaw in flaws]
        if record is not None:
            records.append(record)
    if problems:
        check_kind(path, [raw.value for raw in loaded], Record)
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problem(s) in {len(loaded)} records; the form is described in {FORMAT}\n"
            f"{listing(problems)}"
        )
    if not records:
        raise LmmsEgoplanError(f"{path}: no records; the form is described in {FORMAT}")
    first_ids = {record.is_goalstep: record.step_id for record in reversed(records)}
    if len(first_ids) > 1:
        raise LmmsEgoplanError(
            f"{path}: holds {GOALSTEP_STEPS} (with a category, first {first_ids[True]!r}) and steps of the benchmark "
            f"(with a scenario, first {first_ids[False]!r}); their scores do not compare. Put each into a file of its "
            "own"
        )
    return records


def needed_videos(records: Sequence[Record]) -> dict[str, float]:
    """Return the seconds that the steps show of each video by id, overlaps once; sorted."""
    seconds: dict[str, float] = {}
    reached: dict[str, float] = {}
    for record in sorted(records, key=lambda record: (record.video_id, record.start_sec, record.end_sec)):
        start = max(record.start_sec, reached.get(record.video_id, 0.0))
        seconds[record.video_id] = seconds.get(record.video_id, 0.0) + max(0.0, record.end_sec - start)
        reached[record.video_id] = max(reached.get(record.video_id, 0.0), record.end_sec)
    return seconds


def _by_field(raw: Raw) -> tuple[dict[str, Any], list[str]]:
    """Return values by field name, and problems: duplicate keys, and keys that give a field different values."""
    values: dict[str, Any] = {}
    problems = [f"{shown(key)}: {REPEATED}" for key in raw.value.repeated]
    keys: dict[str, str] = {}
    for key, field in raw.fields.items():
        value = raw.value[key]
        if field not in values:
            values[field], keys[field] = value, key
        elif values[field] != value and field in Record.model_fields:
            problems.append(
                f"{field}: given twice, as {shown(keys[field])} and as {shown(key)}, with different values, "
                f"{shown(values[field])} and {shown(value)}"
            )
    return values, problems


def _told_by(step_id: str, values: Mapping[str, Any]) -> list[str]:
    """List the fields whose words, two or more, an id contains in their order."""
    words = f" {_words(step_id)} "
    texts = {field: _words(values[field]) for field in FIELDS if is_text(values.get(field))}
    return [field for field, text in texts.items() if " " in text and f" {text} " in words]


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))
