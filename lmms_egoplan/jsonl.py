"""JSON and JSON lines that others made: one guard for all, and errors of one line that name the file and the line."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.validation import Kind, problems_in, shown, validate

REPEATED = "given more than once; remove all but one"
_LISTED = 10


class JsonObject(dict[str, Any]):
    """A JSON object that knows which of its keys are there more than once; the last value is kept."""

    repeated: tuple[str, ...] = ()


def decode(text: str | bytes, **options: Any) -> Any:
    """As `json.loads`.

    Raises:
        ValueError: the text is no JSON, or is nested too deeply to be read.
    """
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_objects(text: str | bytes, **options: Any) -> Any:
    """As `decode`, but objects are `JsonObject`, for `repeated_keys`."""
    return decode(text, object_pairs_hook=_read_object, **options)


def parse(where: str, text: str, how: str | None = None) -> Any:
    """As `decode_objects`, with an error that says where the text is.

    Args:
        where: names the file, and the line if the text is one.
        how: what to do where the text is no JSON.

    Raises:
        LmmsEgoplanError: it is none.
    """
    try:
        return decode_objects(text)
    except ValueError as error:
        raise LmmsEgoplanError(f"{where}: no JSON: {error}{f'; {how}' if how else ''}") from error


def parse_record(where: str, text: str, how: str | None = None) -> Any:
    """As `parse`, for a record; of any type.

    Raises:
        LmmsEgoplanError: the text is no JSON, or an object in it has a key more than once.
    """
    record = parse(where, text, how)
    if keys := repeated_keys(record):
        raise LmmsEgoplanError(f"{where}: {', '.join(map(shown, keys[:_LISTED]))}: {REPEATED}")
    return record


def read_text(path: Path, what: str | None = None) -> str:
    """A file's text, with or without a byte order mark.

    Args:
        what: the file holds, for the error.

    Raises:
        LmmsEgoplanError: it cannot be read, or is no UTF-8.
    """
    problem = f"{path}: cannot be read" if what is None else f"{path}: cannot read the {what}"
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise LmmsEgoplanError(f"{problem}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LmmsEgoplanError(f"{problem}: no text in UTF-8: {error}") from error


def read_json(path: Path, what: str | None = None, how: str | None = None) -> Any:
    """What a JSON file holds; objects are `JsonObject`.

    Args:
        what: as for `read_text`.
        how: as for `parse`.

    Raises:
        LmmsEgoplanError: it cannot be read, or holds no JSON.
    """
    return parse(str(path), read_text(path, what), how)


def read_lines(path: Path, what: str | None = None) -> list[tuple[str, str]]:
    """A file's lines that are not blank, each with the text that names it in messages.

    Args:
        what: as for `read_text`.

    Raises:
        LmmsEgoplanError: the file cannot be read, or is no UTF-8.
    """
    lines = read_text(path, what).split("\n")
    return [(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def repeated_keys(value: Any) -> list[str]:
    """The keys that are more than once in one object of what `decode_objects` gave, each with its place.

    ``task_progress_metadata[0].start_frame`` is a key of an object in a list under a key.
    """
    keys: list[str] = []
    ahead = [("", value)]
    while ahead:
        place, inside = ahead.pop()
        if isinstance(inside, JsonObject):
            keys += [f"{place}.{key}".lstrip(".") for key in inside.repeated]
            ahead += [(f"{place}.{key}", member) for key, member in inside.items() if isinstance(member, dict | list)]
        elif isinstance(inside, list):
            ahead += [
                (f"{place}[{index}]", member) for index, member in enumerate(inside) if isinstance(member, dict | list)
            ]
    return sorted(keys)


def check_record(kind: type[Kind], record: Any, context: Any = None) -> tuple[Kind | None, list[str]]:
    """What `decode_objects` gave of a record, as a model, and all that is wrong with it; None if it is no such model.

    Args:
        kind, context: as for `validation.validate`.
    """
    problems = [f"{key}: {REPEATED}" for key in repeated_keys(record)]
    try:
        return validate(kind, record, context), problems
    except ValidationError as error:
        return None, problems + problems_in(error)


def repetition(value: Any) -> str | None:
    """What is wrong with JSON in which a key is there more than once; None if none is."""
    keys = repeated_keys(value)
    return f"{', '.join(keys[:_LISTED])}: {REPEATED}" if keys else None


def _read_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    values = JsonObject(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        values.repeated = tuple(key for key, count in counts.items() if count > 1)
    return values
