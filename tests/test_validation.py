"""Describe the problems that pydantic finds."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError, field_validator

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.validation import Checked, Expected, Seconds, Text, problems_in, read_as, validate


class Action(Checked):
    name: Text
    start: Seconds


class Question(Checked):
    id: Annotated[int, Field(ge=0), Expected("a number from 0")]
    actions: list[Action]
    names: dict[str, int] = Field(default_factory=dict)
    seen: bool = False
    last: Any = Field(validation_alias="last_frame", default=None)


def problems(value):
    with pytest.raises(ValidationError) as caught:
        validate(Question, value)
    return problems_in(caught.value)


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        (3, [("", "3")]),
        ({}, [("id: ", ""), ("actions: ", "")]),
        ({"id": True, "actions": []}, [("id: ", "True")]),
        ({"id": -1, "actions": [1]}, [("id: ", "-1"), ("actions[0]: ", "1")]),
        (
            {"id": 1, "actions": [{"name": "a", "start": 0}, {"name": " ", "start": float("nan")}]},
            [("actions[1].name: ", "' '"), ("actions[1].start: ", "")],
        ),
        ({"id": 1, "actions": [{"name": "\ud800"}]}, [("actions[0].name: ", "'\\ud800'")]),
        ({"id": 1, "actions": [], "seen": 1}, [("seen: ", "1")]),
        ({"id": 1, "actions": [], "names": {"a b": "c"}}, [("names['a b']: ", "'c'")]),
    ],
)
def test_lines_name_the_field_and_its_value(value, facts):
    lines = problems(value)
    assert len(lines) >= len(facts)
    for line, (field, wrong) in zip(lines, facts, strict=False):
        assert line.startswith(field)
        assert wrong in line.removeprefix(field)


def test_valid_values_are_read_and_other_fields_ignored():
    question = validate(
        Question, {"id": 1, "actions": [{"name": "a", "start": 1, "more": 2}], "last_frame": 7}
    )
    assert (question.actions[0].start, question.last) == (1.0, 7)
    assert not hasattr(question.actions[0], "more")


def test_a_single_value_is_named():
    with pytest.raises(LmmsEgoplanError, match=r"^a\.json, line 2: id: .*'x'"):
        read_as(Question, "a.json, line 2", {"id": "x", "actions": []})


@pytest.mark.parametrize(
    ("count", "number_of_others"),
    [(3, None), (4, "and 1 more problem"), (9, "and 6 more problems")],
)
def test_more_than_three_problems_are_counted(count, number_of_others):
    with pytest.raises(LmmsEgoplanError) as caught:
        read_as(Question, "a.json", {"id": 1, "actions": list(range(count))})
    message = str(caught.value)
    assert [f"actions[{number}]" in message for number in range(count)] == [
        number < 3 for number in range(count)
    ]
    assert message.endswith(f", {number_of_others}") if number_of_others else "more" not in message


class Part(BaseModel, extra="forbid"):
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1


class Settings(BaseModel, extra="forbid"):
    epochs: Annotated[int, Field(ge=1, le=9)]
    precision: Literal["auto", "float32"] = "auto"
    parts: dict[str, Part] = {}
    names: Annotated[list[str], Field(min_length=1)] = ["a"]
    code: Annotated[str, Field(pattern="^[a-z]+$", max_length=3)] = "a"
    value: float | str | None = None
    is_checked: bool = True

    @field_validator("code")
    @classmethod
    def _check(cls, code: str) -> str:
        if code == "no":
            raise ValueError("no is not\na code")
        return code


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "epochs: missing"),
        ({"epochs": "abc"}, "epochs: expected a whole number, found 'abc'"),
        ({"epochs": 1.5}, "epochs: expected a whole number, found 1.5"),
        ({"epochs": 0}, "epochs: expected a number from 1, found 0"),
        ({"epochs": 10}, "epochs: expected a number up to 9, found 10"),
        ({"precision": "f8"}, "precision: expected 'auto' or 'float32', found 'f8'"),
        ({"parts": []}, "parts: expected an object, found []"),
        ({"parts": {"a": 3}}, "parts.a: expected an object, found 3"),
        ({"parts": {"a": {"weight": 0}}}, "parts.a.weight: expected a number above 0, found 0"),
        (
            {"parts": {"a": {"weight": float("inf")}}},
            "parts.a.weight: expected a finite number, found inf",
        ),
        (
            {"parts": {"a": {"wieght": 1}}},
            "parts.a.wieght: unknown field; did you mean weight?",
        ),
        ({"parts": {"a": {"b": 1}}}, "parts.a.b: unknown field; use one of weight"),
        ({"names": []}, "names: expected a length of at least 1, found []"),
        ({"names": [1]}, "names[0]: expected a text, found 1"),
        ({"code": "abcd"}, "code: expected at most 3 characters, found 'abcd'"),
        ({"code": "A"}, "code: expected a text of the form ^[a-z]+$, found 'A'"),
        ({"code": "no"}, "code: no is not a code"),
        ({"value": []}, "value: expected a number or a text, found []"),
        ({"is_checked": "perhaps"}, "is_checked: expected true or false, found 'perhaps'"),
        ({"epoch": 1}, "epoch: unknown field; did you mean epochs?"),
    ],
)
def test_the_library_s_words_are_replaced(values, line):
    with pytest.raises(LmmsEgoplanError) as caught:
        read_as(Settings, "a.yaml", ({"epochs": 1} if values else {}) | values)
    assert str(caught.value) == f"a.yaml: {line}"


NAMES = st.sampled_from(["id", "actions", "names"]) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_gives_lines(value):
    lines = ["id: read"]
    try:
        validate(Question, value)
    except ValidationError as error:
        lines = problems_in(error)
    assert lines
    assert all(line and "\n" not in line for line in lines)
