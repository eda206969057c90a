"""Read records that another version of the package wrote."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import StrictFloat

from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText


@dataclass(frozen=True)
class Early(TextRecord):
    WHAT = "a record"

    id: AnyText
    rating: StrictFloat | None


@dataclass(frozen=True)
class Late(Early):
    reply: AnyText | None = None
    flags: list[AnyText] = field(default_factory=list)


def test_a_field_with_a_default_may_be_absent():
    first, second = (Late.from_text(Early(name, 0.5).to_text()) for name in "ab")
    assert first == Late("a", 0.5, None, [])
    assert first.flags is not second.flags
    assert Late.from_text('{"id": "a", "rating": 0.5, "flags": ["x"]}') == Late(
        "a", 0.5, None, ["x"]
    )


def test_a_field_without_a_default_must_not_be_absent():
    with pytest.raises(ValueError, match=r"id, rating, reply, flags.*rating"):
        Late.from_text('{"id": "a", "reply": "x"}')


def test_a_field_of_a_newer_version_is_not_dropped():
    with pytest.raises(ValueError, match=r"'reply', 'flags'"):
        Early.from_text(Late("a", 0.5, "Yes.").to_text())


@pytest.mark.parametrize("wrong", [{"reply": 1}, {"flags": None}, {"id": None}])
def test_an_existing_value_is_checked(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: "):
        Late.from_text(json.dumps({"id": "a", "rating": 0.5} | wrong))


@given(
    st.dictionaries(
        st.sampled_from(["id", "rating", "reply", "flags"]) | st.text(max_size=5),
        st.none() | st.text(),
    )
)
def test_any_object_is_read_or_refused(values):
    try:
        record = Late.from_text(json.dumps(values))
    except ValueError as error:
        assert Late.WHAT in str(error)  # noqa: PT017 - most are refused
    else:
        assert values.items() <= vars(record).items()
