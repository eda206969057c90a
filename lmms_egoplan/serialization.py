"""Scored answers as texts: a harness passes only texts from scoring to aggregation."""

import json
from dataclasses import Field, asdict, fields
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, ValidationError

from lmms_egoplan.jsonl import decode
from lmms_egoplan.validation import problems_in, shown, validate

_Text = TypeVar("_Text", bound="TextRecord")


class TextRecord:
    """A dataclass that is written as text and read back; pydantic checks its values.

    A field with a default may be absent from a text.

    WHAT: names the record in errors.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    WHAT: ClassVar[str]

    def to_text(self) -> str:
        """Return JSON in ASCII without ``<``, so that no filter strips a tag from it."""
        return json.dumps(asdict(self)).replace("<", r"\u003c")

    @classmethod
    def from_text(cls: type[_Text], text: str) -> _Text:
        """Read what `to_text` wrote.

        Raises:
            ValueError: the text is not such a record.
        """
        where = f"expected {cls.WHAT}, got {text!r:.200}"
        try:
            values = decode(text)
        except ValueError as error:
            raise ValueError(f"{where}: no JSON") from error
        try:
            return validate(cls, values)
        except ValidationError as error:
            raise ValueError(f"{where}: {_problem(cls, error)}") from error


def _problem(kind: type[TextRecord], error: ValidationError) -> str:
    """Describe a problem; missing or unknown fields first, which may cause all others."""
    expected = f"expected an object with {', '.join(field.name for field in fields(kind))}"
    named: dict[str, list[Any]] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        named.setdefault(detail["type"], []).extend(detail["loc"][:1])
    if absent := named.get("missing"):
        return f"{expected}; absent: {', '.join(absent)}, which an earlier version of lmms-egoplan may not have written"
    if unknown := named.get("unexpected_keyword_argument"):
        names = ", ".join(map(shown, unknown))
        return f"{expected}; not known: {names}, which a newer version may have written; update lmms-egoplan"
    if "dataclass_type" in named:
        return expected
    return f"wrong value: {'; '.join(problems_in(error))}"
