"""Records that another version of the package has carried through a harness."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.serialization import from_text, to_text


@dataclass(frozen=True)
class Early:
    id: str
    rating: float | None


@dataclass(frozen=True)
class Late:
    id: str
    rating: float | None
    reply: str | None = None
    flags: list[str] = field(default_factory=list)


def read(text, kind=Late):
    def is_right(name, values):
        return isinstance(values[name], {"id": str, "rating": float | None, "reply": str | None, "flags": list}[name])

    return from_text(text, kind, "a record", is_right)


def test_a_field_with_a_default_may_be_absent():
    first, second = (read(to_text(Early(name, 0.5))) for name in "ab")
    assert first == Late("a", 0.5, None, [])
    assert first.flags is not second.flags
    assert read('{"id": "a", "rating": 0.5, "flags": ["x"]}') == Late("a", 0.5, None, ["x"])


def test_a_field_without_one_may_not():
    with pytest.raises(
        ValueError, match=r"expected an object with id, rating, reply, flags; absent: rating, which an ea"
    ):
        read('{"id": "a", "reply": "x"}')


def test_a_field_of_a_newer_version_is_not_dropped():
    with pytest.raises(
        ValueError, match=r"not known: 'reply', 'flags', which a newer version may have written; update"
    ):
        read(to_text(Late("a", 0.5, "Yes.")), Early)


@pytest.mark.parametrize("wrong", [{"reply": 1}, {"flags": None}, {"id": None}])
def test_a_value_that_is_there_is_checked(wrong):
    with pytest.raises(ValueError, match=f"wrong value: {next(iter(wrong))}"):
        read(json.dumps({"id": "a", "rating": 0.5} | wrong))


@given(
    st.dictionaries(st.sampled_from(["id", "rating", "reply", "flags"]) | st.text(max_size=5), st.none() | st.text())
)
def test_any_object_is_read_or_refused(values):
    try:
        found = read(json.dumps(values))
    except ValueError as error:
        assert str(error).startswith("expected a record, got ")  # noqa: PT017 - most are refused
    else:
        assert values.items() <= vars(found).items()
