"""Validate external data with pydantic, and describe problems for users."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeGuard, TypeVar

from annotated_types import Predicate
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema

from lmms_egoplan.errors import LmmsEgoplanError

_MOST_CHARACTERS = 80
# The expected value in messages, by the type of pydantic's error.
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
_EXPECTED_TYPE = "expected"
_PROBLEM_TYPE = "problem"
_HALF_OF_PAIR = re.compile("[\ud800-\udfff]")

Record = TypeVar("Record")


def is_text(value: Any) -> TypeGuard[str]:
    """Return true for a non-blank text without halves of surrogate pairs.

    JSON files may contain such halves.
    """
    if not isinstance(value, str) or not value.strip():
        return False
    return _HALF_OF_PAIR.search(value) is None


def quoted(value: Any) -> str:
    """Format a value for a message: in ASCII, truncated after 80 characters.

    None is ``nothing``.
    """
    text = "nothing" if value is None else ascii(value)
    if len(text) > _MOST_CHARACTERS:
        return f"{text[:_MOST_CHARACTERS]}..."
    return text


def listing(problems: Sequence[str], limit: int = 20) -> str:
    """Format the first `limit` problems as indented lines, then the number of others."""
    lines = [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  ... and {len(problems) - limit} more")
    return "\n".join(lines)


def refuse(problems: Sequence[str], one: str, several: str) -> None:
    """Raise `LmmsEgoplanError` if there are problems.

    Args:
        problems: The problems.
        one: Beginning of the message if there is only one problem.
        several: First line of the message if there are several, before their list.
    """
    if len(problems) == 1:
        raise LmmsEgoplanError(f"{one}{problems[0]}")
    if problems:
        raise LmmsEgoplanError(f"{several}\n{listing(problems)}")


def expected(what: str) -> PydanticCustomError:
    """Return an error for validators that names the expected value.

    `problems_in` adds the actual value.
    """
    return PydanticCustomError(_EXPECTED_TYPE, "expected {what}", {"what": what})


def problem(text: str) -> PydanticCustomError:
    """Return an error for validators with a complete message."""
    return PydanticCustomError(_PROBLEM_TYPE, "{text}", {"text": text})


@dataclass(frozen=True)
class Expected:
    """The expected value in error messages.

    Use it in ``Annotated``, after a type and its bounds.
    """

    what: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], core_schema.CoreSchema]
    ) -> core_schema.CoreSchema:
        """Replace the errors of the type's schema by one that names the expected value."""
        return core_schema.custom_error_schema(
            handler(source),
            _EXPECTED_TYPE,
            custom_error_message="expected {what}",
            custom_error_context={"what": self.what},
        )


Text = Annotated[Any, Predicate(is_text), Expected("a text")]
"""A text that passes `is_text`."""

Seconds = Annotated[
    float, Field(strict=True, ge=0, allow_inf_nan=False), Expected("seconds, a number from 0")
]

AnyText = InstanceOf[str]
"""Any text, even blank or with halves of surrogate pairs."""


class Checked(BaseModel):
    """An object from JSON.

    Values are not converted. A missing value causes the same error as null.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            raise expected("an object")
        required = (
            field.validation_alias or name
            for name, field in cls.model_fields.items()
            if field.is_required()
        )
        return dict.fromkeys(required) | values


def validate(record_type: type[Record], value: Any, context: Any = None) -> Record:
    """Validate a value as a model, a dataclass or any other type that pydantic supports.

    Args:
        context: context for the validators of `record_type`.

    Raises:
        pydantic.ValidationError: the value is invalid; see `problems_in`.
    """
    return _adapter(record_type).validate_python(value, context=context)


def read_as(record_type: type[Record], where: str, value: Any) -> Record:
    """Validate a value as `validate` does, with an error for users.

    Args:
        where: name of the file, and of the record if the file has several.

    Raises:
        LmmsEgoplanError: the value is invalid. The message contains the first three problems and
            the number of others.
    """
    try:
        return validate(record_type, value)
    except ValidationError as error:
        problems = problems_in(error)
        message = f"{where}: {'; '.join(problems[:3])}"
        if len(problems) == 4:
            message += ", and 1 more problem"
        elif len(problems) > 4:
            message += f", and {len(problems) - 3} more problems"
        raise LmmsEgoplanError(message) from error


def problems_in(error: ValidationError) -> list[str]:
    """Describe the problems of a value, one line each: field, expected value, actual value.

    An example is ``task_progress_metadata[0].start_frame: expected a frame number from 1, found
    0``.
    """
    lines = []
    for detail in error.errors(include_url=False, include_context=False):
        text = detail["msg"]
        if detail["type"] in _EXPECTED:
            text = f"expected {_EXPECTED[detail['type']]}"
        if detail["type"] != _PROBLEM_TYPE:
            text = f"{text}, found {quoted(detail['input'])}"
        field = _field_path(detail["loc"])
        lines.append(f"{field}: {text}" if field else text)
    return lines


def _field_path(location: Sequence[int | str]) -> str:
    """Format pydantic's location of a problem, such as ``metadata[0].start_frame``."""
    path = ""
    for part in location:
        if part == "[key]":
            continue
        path += f".{part}" if str(part).isidentifier() else f"[{quoted(part)}]"
    return path.lstrip(".")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
