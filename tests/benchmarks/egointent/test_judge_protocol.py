"""The judge's prompts, and how its verdicts are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egointent.judge_texts import REFERENCES, TEXTS, shown_in
from lmms_egoplan.benchmarks.egointent.judge_protocol import SCALE, judge_prompt, read_rating, read_ratings, scale_of
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS


@pytest.mark.parametrize(
    ("verdict", "rating"),
    [
        ("They agree.\n[[85]]", 85),
        ("[[0]]", 0),
        ("**[[100]]**.", 100),
        ("[[ 62.5 ]]", 62.5),
        ("[[10]] at first, but no: [[20]]", 20),
        ("[[85]] and then [[n]]", None),
        ("[[101]]", None),
        ("[[100.5]]", None),
        ("[[-1]]", None),
        ("[[85/100]]", None),
        ("[[٨٥]]", None),
        ("[[local_intent: 80]]", None),
        ("[85]", None),
        ("85", None),
        ("", None),
    ],
)
def test_reads_the_last_rating(verdict, rating):
    assert read_rating(verdict) == rating


@pytest.mark.parametrize(
    ("verdict", "ratings"),
    [
        (
            "[[local_intent: 80]]\n[[global_intent: 5]]\n[[next_step_plan:0]]",
            dict(zip(FIELDS, (80, 5, 0), strict=True)),
        ),
        ("[[Local Intent: 80]] [[next-step plan : 7.5 ]]", {"local_intent": 80, "next_step_plan": 7.5}),
        ("[[local_intent: 80]] or [[local_intent: 70]]", {"local_intent": 70}),
        ("[[local_intent: 80]] [[local_intent: n]] [[other: 3]] [[9]]", {}),
        ("[[global_intent: 101]]", {}),
    ],
)
def test_reads_the_last_rating_of_each_field(verdict, ratings):
    assert read_ratings(verdict) == ratings


@given(TEXTS)
def test_any_verdict_is_read(verdict):
    rating = read_rating(verdict)
    assert rating is None or 0 <= rating <= SCALE.best
    assert all(0 <= rating <= SCALE.best for rating in read_ratings(verdict).values())
    assert read_rating(f"{verdict}\n[[35]]") == 35
    assert read_ratings(f"{verdict}\n[[global_intent: 35]]")["global_intent"] == 35


@given(st.sets(st.sampled_from(FIELDS), min_size=2), st.sets(st.sampled_from(FIELDS)))
def test_a_verdict_on_several_fields_needs_them_all(asked, rated):
    verdict = " ".join(f"[[{field}: 40]]" for field in sorted(rated))
    assert scale_of(sorted(asked)).read(verdict) == (40 if asked <= rated else None)


@pytest.mark.parametrize("fields", [*([field] for field in FIELDS), FIELDS[:2], FIELDS])
def test_prompts_hold_texts_and_no_rating(fields):
    predictions = {field: f"<{field}> {{braces}}" for field in fields}
    prompt = judge_prompt(REFERENCES, predictions)
    for field in FIELDS:
        assert (REFERENCES[field] in prompt) == (field in fields)
        assert prompt.count(f"<{field}>") == (field in fields)
    assert shown_in(prompt) == list(predictions.values())
    assert read_rating(prompt) is None
    assert read_ratings(prompt) == {}
    assert all(len(line) < 500 for line in prompt.splitlines())
