"""Serialize scored answers as text.

A harness passes only text from scoring to aggregation.
"""

import json
from dataclasses import Field, asdict, fields
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, ValidationError

from lmms_egoplan.jsonl import decode
from lmms_egoplan.validation import problems_in, quoted, validate

_Text = TypeVar("_Text", bound="TextRecord")


class TextRecord:
    """Base of dataclasses that are written as text and read back. Pydantic checks the values.

    A field with a default may be missing in a text.

    WHAT: noun for the record in errors.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    WHAT: ClassVar[str]

    def to_text(self) -> str:
        """Return JSON in ASCII. It contains no ``<``, since a filter might remove a tag."""
        return json.dumps(asdict(self)).replace("<", r"\u003c")

    @classmethod
    def from_text(cls: type[_Text], text: str) -> _Text:
        """Read what `to_text` wrote.

        Raises:
            ValueError: the text is not a record of this class.
        """
        where = f"expected {cls.WHAT}, got {text!r:.200}"
        try:
            values = decode(text)
        except ValueError as error:
            raise ValueError(f"{where}: invalid JSON") from error
        try:
            return validate(cls, values)
        except ValidationError as error:
            raise ValueError(f"{where}: {_problem(cls, error)}") from error


def _problem(record_type: type[TextRecord], error: ValidationError) -> str:
    """Describe a problem.

    Missing or unknown fields come first, since they may cause the other problems.
    """
    expected = f"expected an object with {', '.join(field.name for field in fields(record_type))}"
    fields_by_problem: dict[str, list[Any]] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        fields_by_problem.setdefault(detail["type"], []).extend(detail["loc"][:1])
    missing = fields_by_problem.get("missing")
    if missing:
        return (
            f"{expected}; missing: {', '.join(missing)} (an earlier version of lmms-egoplan "
            "may have omitted it)"
        )
    unknown = fields_by_problem.get("unexpected_keyword_argument")
    if unknown:
        names = ", ".join(quoted(name) for name in unknown)
        return (
            f"{expected}; unknown: {names} (a newer version may have written it); update "
            "lmms-egoplan"
        )
    if "dataclass_type" in fields_by_problem:
        return expected
    return f"wrong value: {'; '.join(problems_in(error))}"
