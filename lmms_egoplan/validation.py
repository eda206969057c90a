"""Checks of values that others made, by models of pydantic, and how problems with them are told."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from annotated_types import Predicate
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError, core_schema

from lmms_egoplan.errors import LmmsEgoplanError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_SHOWN = 80
# What was expected, by the type of pydantic's error.
_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "float_type": "a number",
    "int_type": "an integer",
    "is_instance_of": "a text",
    "list_type": "a list",
    "string_type": "a text",
    "string_unicode": "a text",
}
_EXPECTED_TYPE, _PROBLEM_TYPE = "expected", "problem"

Kind = TypeVar("Kind")


def is_text(value: Any) -> bool:
    """Whether a value is a text with more than blanks that can be stored: JSON files may hold halves of surrogates."""
    return isinstance(value, str) and bool(value.strip()) and not re.search("[\ud800-\udfff]", value)


def shown(value: Any) -> str:
    """A value of any kind for a message: in ASCII, cut after 80 characters; ``nothing`` for None."""
    text = "nothing" if value is None else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def listing(problems: Sequence[str], limit: int = 20) -> str:
    """Indented lines with the first `limit` problems, and how many more there are."""
    lines = [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  ... and {len(problems) - limit} more")
    return "\n".join(lines)


def expected(what: str) -> PydanticCustomError:
    """For validators to raise: what the value should have been; `problems_in` adds what it is."""
    return PydanticCustomError(_EXPECTED_TYPE, "expected {what}", {"what": what})


def problem(text: str) -> PydanticCustomError:
    """For validators to raise: what is wrong, in full."""
    return PydanticCustomError(_PROBLEM_TYPE, "{text}", {"text": text})


@dataclass(frozen=True)
class Expected:
    """In ``Annotated``, behind a type and its bounds: what any other value is told to be expected instead."""

    what: str

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> core_schema.CoreSchema:
        """The type's schema with this error in place of its own."""
        return core_schema.custom_error_schema(
            handler(source),
            _EXPECTED_TYPE,
            custom_error_message="expected {what}",
            custom_error_context={"what": self.what},
        )


Text = Annotated[Any, Predicate(is_text), Expected("a text")]
"""A text as `is_text` has it."""

Seconds = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False), Expected("seconds, a number from 0")]

AnyText = InstanceOf[str]
"""A text, be it blank or with halves of surrogates."""


class Checked(BaseModel):
    """An object out of JSON. Its values have their fields' types from the start; absent ones are told like nulls."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            raise expected("an object")
        required = (field.validation_alias or name for name, field in cls.model_fields.items() if field.is_required())
        return dict.fromkeys(required) | values


def validate(kind: type[Kind], value: Any, context: Any = None) -> Kind:
    """A value as a model, a dataclass or any other type that pydantic knows.

    Args:
        context: for the validators of `kind`.

    Raises:
        pydantic.ValidationError: it is none; `problems_in` tells why.
    """
    return _adapter(kind).validate_python(value, context=context)


def read_as(kind: type[Kind], where: str, value: Any) -> Kind:
    """As `validate`, for a value that stands alone.

    Args:
        where: names the file, and the record if it has several.

    Raises:
        LmmsEgoplanError: it is none; tells the first problem.
    """
    try:
        return validate(kind, value)
    except ValidationError as error:
        raise LmmsEgoplanError(f"{where}: {problems_in(error)[0]}") from error


def problems_in(error: ValidationError) -> list[str]:
    """What is wrong with a value, a line for each problem: the field, what was expected, what was found.

    ``task_progress_metadata[0].start_frame: expected a frame number from 1, found 0`` is about a field of an object in
    a list under a field.
    """
    lines = []
    for detail in error.errors(include_url=False, include_context=False):
        text = f"expected {_EXPECTED[detail['type']]}" if detail["type"] in _EXPECTED else detail["msg"]
        if detail["type"] != _PROBLEM_TYPE:
            text = f"{text}, found {shown(detail['input'])}"
        parts = (part for part in detail["loc"] if part != "[key]")
        place = "".join(f".{part}" if str(part).isidentifier() else f"[{shown(part)}]" for part in parts).lstrip(".")
        lines.append(f"{place}: {text}" if place else text)
    return lines


@cache
def _adapter(kind: Any) -> TypeAdapter:
    return TypeAdapter(kind)
