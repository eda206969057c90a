"""Checks of values from elsewhere by pydantic, and messages about their problems."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeGuard, TypeVar

from annotated_types import Predicate
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError, core_schema

from lmms_egoplan.errors import LmmsEgoplanError

_MOST_CHARACTERS = 80
# The expected value, by the type of pydantic's error.
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


def is_text(value: Any) -> TypeGuard[str]:
    """Return true for a non-blank text without halves of surrogate pairs, which JSON files may contain."""
    return isinstance(value, str) and bool(value.strip()) and not re.search("[\ud800-\udfff]", value)


def shown(value: Any) -> str:
    """Format any value for a message: in ASCII, cut after 80 characters; ``nothing`` for None."""
    text = "nothing" if value is None else ascii(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def listing(problems: Sequence[str], limit: int = 20) -> str:
    """Format the first `limit` problems as indented lines, then the number of the others."""
    lines = [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  ... and {len(problems) - limit} more")
    return "\n".join(lines)


def expected(what: str) -> PydanticCustomError:
    """Return an error for validators: the expected value; `problems_in` adds the one found."""
    return PydanticCustomError(_EXPECTED_TYPE, "expected {what}", {"what": what})


def problem(text: str) -> PydanticCustomError:
    """Return an error for validators with its full message."""
    return PydanticCustomError(_PROBLEM_TYPE, "{text}", {"text": text})


@dataclass(frozen=True)
class Expected:
    """In ``Annotated``, after a type and its bounds: what the error for any other value says was expected."""

    what: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], core_schema.CoreSchema]
    ) -> core_schema.CoreSchema:
        """Replace the errors of the type's schema."""
        return core_schema.custom_error_schema(
            handler(source),
            _EXPECTED_TYPE,
            custom_error_message="expected {what}",
            custom_error_context={"what": self.what},
        )


Text = Annotated[Any, Predicate(is_text), Expected("a text")]
"""A text that passes `is_text`."""

Seconds = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False), Expected("seconds, a number from 0")]

AnyText = InstanceOf[str]
"""Any text, even blank or with halves of surrogate pairs."""


class Checked(BaseModel):
    """An object from JSON. Its values are not converted; errors for absent ones are those for nulls."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            raise expected("an object")
        required = (field.validation_alias or name for name, field in cls.model_fields.items() if field.is_required())
        return dict.fromkeys(required) | values


def validate(kind: type[Kind], value: Any, context: Any = None) -> Kind:
    """Validate a value as a model, a dataclass or any other type that pydantic knows.

    Args:
        context: for the validators of `kind`.

    Raises:
        pydantic.ValidationError: it is not; see `problems_in`.
    """
    return _adapter(kind).validate_python(value, context=context)


def read_as(kind: type[Kind], where: str, value: Any) -> Kind:
    """Validate a value as `validate` does, with an error for users.

    Args:
        where: names the file, and the record if it has several.

    Raises:
        LmmsEgoplanError: it is not; names the first three problems.
    """
    try:
        return validate(kind, value)
    except ValidationError as error:
        raise LmmsEgoplanError(f"{where}: {'; '.join(problems_in(error)[:3])}") from error


def problems_in(error: ValidationError) -> list[str]:
    """Describe the problems of a value, a line each: field, expected and found value.

    An example is ``task_progress_metadata[0].start_frame: expected a frame number from 1, found 0``.
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


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
