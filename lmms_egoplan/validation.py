"""Validate external data with pydantic, and describe problems for users."""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeGuard, TypeVar, get_args

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
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema

from lmms_egoplan.errors import LmmsEgoplanError

_MOST_CHARACTERS = 80
# The expected value in messages, by the type of pydantic's error, with its context.
_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "enum": "{expected}",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number from {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_type": "a whole number",
    "is_instance_of": "a text",
    "iterable_type": "a list",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number up to {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "mapping_type": "an object",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "multiple_of": "a multiple of {multiple_of}",
    "none_required": "nothing",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "string_type": "a text",
    "string_unicode": "a text",
    "too_long": "a length of at most {max_length}",
    "too_short": "a length of at least {min_length}",
    "tuple_type": "a list",
}
_MISSING = (
    "missing",
    "missing_argument",
    "missing_keyword_only_argument",
    "missing_positional_only_argument",
)
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
# pydantic's names of the members of a union, which end the location of a problem.
_UNION_MEMBER = re.compile(
    r"(int|float|str|bool|none|dict|list|tuple|literal|constrained-\w+|is-instance|function-\w+|"
    r"nullable|json-or-python|lax-or-strict)(\[.*\])?"
)
_EXPECTED_TYPE = "expected"
_PROBLEM_TYPE = "problem"
_EXPECTED_PREFIX = "expected "
_UNKNOWN_FIELD = "unknown field"
# A message names all fields of a record with at most so many.
_MOST_FIELDS = 12
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
        problems = problems_in(error, record_type)
        message = f"{where}: {'; '.join(problems[:3])}"
        if len(problems) == 4:
            message += ", and 1 more problem"
        elif len(problems) > 4:
            message += f", and {len(problems) - 3} more problems"
        raise LmmsEgoplanError(message) from error


def problems_in(error: ValidationError, record_type: Any = None) -> list[str]:
    """Describe the problems of a value, one line each: field, expected value, actual value.

    An example is ``task_progress_metadata[0].start_frame: expected a frame number from 1, found
    0``. No line contains pydantic's words.

    Args:
        record_type: Type of the value, to suggest names for unknown fields.
    """
    texts: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        if location and _UNION_MEMBER.fullmatch(str(location[-1])):
            location = location[:-1]
        field = _field_path(location)
        text = _problem_text(detail, record_type)
        if text not in texts.setdefault(field, []):
            texts[field].append(text)
        values[field] = detail["input"]
    lines = []
    for field, of_field in texts.items():
        wanted = [text for text in of_field if text.startswith(_EXPECTED_PREFIX)]
        descriptions = [text for text in of_field if text not in wanted]
        if wanted:
            what = " or ".join(text.removeprefix(_EXPECTED_PREFIX) for text in wanted)
            descriptions.append(f"{_EXPECTED_PREFIX}{what}, found {quoted(values[field])}")
        lines += [f"{field}: {text}" if field else text for text in descriptions]
    # An unknown field is often the cause of the other problems.
    return sorted(lines, key=lambda line: _UNKNOWN_FIELD not in line)


def _problem_text(detail: ErrorDetails, record_type: Any) -> str:
    """Describe a problem in our own words; the actual value follows ``expected ...``."""
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind in _EXPECTED:
        bounds = {name: _as_written(value) for name, value in context.items()}
        text = _EXPECTED_PREFIX + _EXPECTED[kind].format(**bounds)
    elif kind in (_EXPECTED_TYPE, _PROBLEM_TYPE):
        text = detail["msg"]
    elif kind in _MISSING:
        text = "missing"
    elif kind in _UNKNOWN:
        *parents, name = detail["loc"]
        text = _unknown_field(str(name), _field_names(record_type, parents))
    elif "error" in context:
        text = " ".join(str(context["error"]).split())
    else:
        text = f"{_EXPECTED_PREFIX}another value"
    return text


def _as_written(bound: Any) -> Any:
    """Return a bound that pydantic converted to a float as a whole number, if it is one."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _unknown_field(name: str, known: Sequence[str]) -> str:
    similar = difflib.get_close_matches(name, known, 1)
    if similar:
        return f"{_UNKNOWN_FIELD}; did you mean {similar[0]}?"
    if 0 < len(known) <= _MOST_FIELDS:
        return f"{_UNKNOWN_FIELD}; use one of {', '.join(known)}"
    return _UNKNOWN_FIELD


def _field_names(record_type: Any, location: Sequence[int | str]) -> list[str]:
    """Return the names of the fields of a model, or of the model at a location inside it."""
    fields: dict[str, Any] = {}
    pending = [record_type]
    while pending and not fields:
        part = pending.pop(0)
        pending += get_args(part)
        if is_dataclass(part):
            fields = getattr(part, "__annotations__", {})
        else:
            models = getattr(part, "model_fields", {})
            fields = {name: model.annotation for name, model in models.items()}
    if not location:
        return [*fields]
    first, *rest = location
    # A position in a list and a key of an object are not fields.
    return _field_names(fields.get(str(first), record_type), rest)


def _field_path(location: Sequence[int | str]) -> str:
    """Format pydantic's location of a problem, such as ``metadata[0].start_frame``."""
    path = ""
    for part in location:
        if part == "[key]":
            continue
        path += f".{part}" if str(part).isidentifier() else f"[{quoted(part)}]"
    return path.lstrip(".")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
