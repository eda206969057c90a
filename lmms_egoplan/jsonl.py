"""Read JSON, JSON lines and CSV, with one-line errors that name the file and the line."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.validation import Record, problems_in, quoted, validate

REPEATED = "given more than once; remove all but one"
_MOST_KEYS = 10
# Files that a message names if a folder is passed instead of a file.
_SUFFIXES = (".json", ".jsonl", ".csv", ".yaml", ".yml", ".txt")
_MOST_FILES = 3


class JsonObject(dict[str, Any]):
    """A JSON object that lists its duplicate keys in `repeated` and contains their last values."""

    repeated: tuple[str, ...] = ()


def decode(text: str | bytes, **options: Any) -> Any:
    """Decode JSON as `json.loads` does.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_objects(text: str | bytes, **options: Any) -> Any:
    """Decode JSON with `JsonObject` for objects, as `repeated_keys` requires."""
    return decode(text, object_pairs_hook=_read_object, **options)


def parse(where: str, text: str, how: str | None = None) -> Any:
    """Decode JSON as `decode_objects` does, with an error that names the source.

    Args:
        where: name of the file, with the line number if the text is a line.
        how: what to do if the text is not JSON.

    Raises:
        LmmsEgoplanError: the text is not JSON.
    """
    try:
        return decode_objects(text)
    except ValueError as error:
        remedy = f"; {how}" if how else ""
        raise LmmsEgoplanError(f"{where}: invalid JSON: {error}{remedy}") from error


def parse_record(where: str, text: str, how: str | None = None) -> Any:
    """Parse a record: a JSON value without duplicate keys.

    Raises:
        LmmsEgoplanError: the text is not JSON, or has a duplicate key.
    """
    record = parse(where, text, how)
    keys = [quoted(key) for key in repeated_keys(record)]
    if keys:
        raise LmmsEgoplanError(f"{where}: {', '.join(keys[:_MOST_KEYS])}: {REPEATED}")
    return record


def read_text(path: Path, what: str | None = None) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Args:
        what: name of the content, for the error.

    Raises:
        LmmsEgoplanError: the file cannot be read, or is not UTF-8.
    """
    problem = f"{path}: cannot be read" if what is None else f"{path}: cannot read the {what}"
    try:
        return path.read_bytes().decode("utf-8-sig")
    except IsADirectoryError as error:
        raise LmmsEgoplanError(f"{problem}: it is a folder; {_files_in(path)}") from error
    except OSError as error:
        raise LmmsEgoplanError(f"{problem}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LmmsEgoplanError(f"{problem}: not UTF-8: {error}") from error


def _files_in(folder: Path) -> str:
    """Say which files of a folder may be meant."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix in _SUFFIXES]
    names = [str(path) for path in files[:_MOST_FILES]]
    if len(names) < 2:
        return f"did you mean {names[0]}?" if names else "pass a file"
    others = f" and {len(files) - len(names)} more" if len(files) > len(names) else ""
    return f"pass one of its files: {', '.join(names)}{others}"


def read_json(path: Path, what: str | None = None, how: str | None = None) -> Any:
    """Read a JSON file, with `JsonObject` for objects.

    Args:
        what: see `read_text`.
        how: see `parse`.

    Raises:
        LmmsEgoplanError: the file cannot be read, or is not JSON.
    """
    return parse(str(path), read_text(path, what), how)


def read_lines(path: Path, what: str | None = None) -> list[tuple[str, str]]:
    """Read the non-blank lines of a file, each after its location for messages, ``FILE, line 3``.

    Args:
        what: see `read_text`.

    Raises:
        LmmsEgoplanError: the file cannot be read, or is not UTF-8.
    """
    lines = read_text(path, what).split("\n")
    return [
        (f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()
    ]


def read_csv(
    path: Path, what: str | None = None, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of the non-blank lines of a CSV file.

    Args:
        what: see `read_text`.
        strict: refuse invalid quotation marks.

    Raises:
        LmmsEgoplanError: the file cannot be read, or is not UTF-8 or CSV.
    """
    rows = csv.reader(io.StringIO(read_text(path, what), newline=""), strict=strict)
    number = 0
    try:
        for cells in rows:
            number = rows.line_num
            if cells:
                yield number, cells
    except csv.Error as error:
        raise LmmsEgoplanError(f"{path}, after line {number}: not CSV: {error}") from error


def json_lines(records: Iterable[Any]) -> str:
    """Return the text of a file with one record per line."""
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def repeated_keys(value: Any) -> list[str]:
    """List the paths of duplicate keys in a value from `decode_objects`, sorted.

    An example of a path is ``task_progress_metadata[0].start_frame``.
    """
    keys: list[str] = []
    pending = [("", value)]
    while pending:
        path, part = pending.pop()
        if isinstance(part, JsonObject):
            keys += [f"{path}.{key}".lstrip(".") for key in part.repeated]
            pending += [
                (f"{path}.{key}", member)
                for key, member in part.items()
                if isinstance(member, dict | list)
            ]
        elif isinstance(part, list):
            pending += [(f"{path}[{index}]", member) for index, member in enumerate(part)]
    return sorted(keys)


def check_record(
    record_type: type[Record], record: Any, context: Any = None
) -> tuple[Record | None, list[str]]:
    """Validate a record from `decode_objects`; return the model, or None, and all problems.

    Args:
        record_type, context: see `validation.validate`.
    """
    problems = [f"{key}: {REPEATED}" for key in repeated_keys(record)]
    try:
        return validate(record_type, record, context), problems
    except ValidationError as error:
        return None, problems + problems_in(error, record_type)


def repetition(value: Any) -> str | None:
    """Describe the duplicate keys in a value from `decode_objects`; None if it has none."""
    keys = repeated_keys(value)
    return f"{', '.join(keys[:_MOST_KEYS])}: {REPEATED}" if keys else None


def _read_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    values = JsonObject(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        values.repeated = tuple(key for key, count in counts.items() if count > 1)
    return values


def member(value: Any, *names: str) -> Any:
    """Return a member of nested objects, by path; None if it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
