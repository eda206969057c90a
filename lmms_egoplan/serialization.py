"""A scored answer as text and back: a harness hands nothing but texts from scoring to aggregation."""

import json
from dataclasses import asdict, fields
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, ValidationError

from lmms_egoplan.jsonl import decode
from lmms_egoplan.validation import problems_in, shown, validate

_Text = TypeVar("_Text", bound="TextRecord")


class TextRecord:
    """A dataclass that goes as text and comes back; pydantic checks its values by their types and its validators.

    A field with a default may be absent from a text, since an earlier version of the package did not have it yet.

    WHAT: names the record in the error.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    WHAT: ClassVar[str]

    def to_text(self) -> str:
        """JSON in ASCII without ``<``, so that nobody finds a tag in it to strip."""
        return json.dumps(asdict(self)).replace("<", r"\u003c")

    @classmethod
    def from_text(cls: type[_Text], text: str) -> _Text:
        """Read what `to_text` wrote.

        Raises:
            ValueError: the text is something else.
        """
        where = f"expected {cls.WHAT}, got {text!r:.200}"
        try:
            values = decode(text)
        except ValueError as error:
            raise ValueError(f"{where}: no JSON") from error
        try:
            return validate(cls, values)
        except ValidationError as error:
            raise ValueError(f"{where}: {_told(cls, error)}") from error


def _told(kind: type[TextRecord], error: ValidationError) -> str:
    """What is wrong: the fields of another version first, since they may be the cause of all else."""
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
