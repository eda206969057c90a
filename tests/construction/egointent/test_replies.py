"""Test replies of a language model that differ from the requested form."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.construction.egointent.candidates import PROPOSED, read_proposal, read_support
from lmms_egoplan.construction.egointent.places import read_place

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from([*PROPOSED, "place", "environment", "other"]), inside, max_size=4
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_is_read_or_refused(reply):
    with suppress(ValueError):
        video_place = read_place("video", reply)
        assert video_place["environment"] in ("indoor", "outdoor")
        assert 0 < len(video_place["scenario"].split()) <= 6
    with suppress(ValueError):
        assert all(read_proposal("step", reply).values())
    with suppress(ValueError):
        verdicts = read_support({"procedural_intent": ["a"], "next_step": ["b", "c"]}, reply)
        assert {name: len(values) for name, values in verdicts.items()} == {
            "procedural_intent": 1,
            "next_step": 2,
        }


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        ({"procedural_intent": [True], "next_step": [True]}, "next_step: .*2.*1"),
        ({"procedural_intent": ["yes"], "next_step": [True, True]}, "procedural_intent"),
        ({"procedural_intent": [1], "next_step": [True, True]}, "procedural_intent"),
        ([[True], [True, False]], "."),
    ],
)
def test_support_reply_must_cover_every_candidate(reply, facts):
    with pytest.raises(ValueError, match=facts):
        read_support({"procedural_intent": ["a"], "next_step": ["b", "c"]}, reply)


@pytest.mark.parametrize(
    ("scenario", "environment", "expected"),
    [(" kitchen ", "Indoor", ("kitchen", "indoor")), ("yard", "outdoor ", ("yard", "outdoor"))],
)
def test_blanks_and_case_of_a_place_are_ignored(scenario, environment, expected):
    video_place = read_place("video", {"place": scenario, "environment": environment})
    assert (video_place["scenario"], video_place["environment"]) == expected
