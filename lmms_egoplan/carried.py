"""The text in which a scored answer travels through a harness, which carries nothing but texts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, TypeVar

Carried = TypeVar("Carried")


def to_text(record: Any) -> str:
    """A dataclass as JSON in ASCII without ``<``, so that nobody finds a tag in it to strip."""
    return json.dumps(asdict(record)).replace("<", r"\u003c")


def from_text(text: str, kind: type[Carried], what: str, is_right: Callable[[str, Mapping[str, Any]], bool]) -> Carried:
    """Read what `to_text` wrote.

    Args:
        kind: the dataclass. A field with a default may be absent, as in what earlier versions wrote.
        what: names the record in the error.
        is_right: whether the value under a field's name, of all values, is one that the field can have.

    Raises:
        ValueError: the text is something else.
    """
    names = [field.name for field in fields(kind)]
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected {what}, got {text!r:.200}: no JSON") from error
    if isinstance(values, dict):
        values = defaults | values
    if not isinstance(values, dict) or values.keys() != set(names):
        raise ValueError(f"expected {what}, got {text!r:.200}: expected an object with {', '.join(names)}")
    wrong = [name for name in names if not is_right(name, values)]
    if wrong:
        raise ValueError(f"expected {what}, got {text!r:.200}: wrong value: {', '.join(wrong)}")
    return kind(**values)
