"""A scored answer as text and back: a harness hands nothing but texts from scoring to aggregation."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, fields
from typing import Any, ClassVar, TypeVar

from lmms_egoplan.jsonl import decode
from lmms_egoplan.validation import shown

Record = TypeVar("Record")


def to_text(record: Any) -> str:
    """A dataclass as JSON in ASCII without ``<``, so that nobody finds a tag in it to strip."""
    return json.dumps(asdict(record)).replace("<", r"\u003c")


def from_text(text: str, kind: type[Record], what: str, is_right: Callable[[str, Mapping[str, Any]], bool]) -> Record:
    """Read what `to_text` wrote.

    Args:
        kind: the dataclass. A field with a default may be absent, since an earlier version of the package did not have
            it yet.
        what: names the record in the error.
        is_right: whether the value under a field's name, of all values, is one that the field can have.

    Raises:
        ValueError: the text is something else.
    """
    defaults = {field.name: _default(field) for field in fields(kind)}
    try:
        values = decode(text)
    except ValueError as error:
        raise ValueError(f"expected {what}, got {text!r:.200}: no JSON") from error
    expected = f"expected {what}, got {text!r:.200}: expected an object with {', '.join(defaults)}"
    if not isinstance(values, dict):
        raise ValueError(expected)
    values = {name: default for name, default in defaults.items() if default is not MISSING} | values
    if absent := [name for name in defaults if name not in values]:
        raise ValueError(
            f"{expected}; absent: {', '.join(absent)}, which an earlier version of lmms-egoplan may not have written"
        )
    if unknown := [name for name in values if name not in defaults]:
        names = ", ".join(map(shown, unknown))
        raise ValueError(f"{expected}; not known: {names}, which a newer version may have written; update lmms-egoplan")
    wrong = [name for name in defaults if not is_right(name, values)]
    if wrong:
        raise ValueError(f"expected {what}, got {text!r:.200}: wrong value: {', '.join(wrong)}")
    return kind(**values)


def _default(field: Field) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


_Text = TypeVar("_Text", bound="TextRecord")


class TextRecord:
    """A dataclass with `to_text` and `from_text` as methods.

    WHAT: names the record in the error.
    """

    WHAT: ClassVar[str]

    def to_text(self) -> str:
        """For `from_text`; nothing that a harness strips from texts is in it."""
        return to_text(self)

    @classmethod
    def from_text(cls: type[_Text], text: str) -> _Text:
        """Read what `to_text` wrote.

        Raises:
            ValueError: the text is something else.
        """
        return from_text(text, cls, cls.WHAT, cls._is_right)

    @staticmethod
    def _is_right(name: str, values: Mapping[str, Any]) -> bool:
        """Whether the value under a field's name, of all values, is one that the field can have."""
        raise NotImplementedError
