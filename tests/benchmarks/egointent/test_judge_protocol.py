"""Test the judge's prompts and the reading of its verdicts."""

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egointent.judge_texts import REFERENCES, TEXTS, shown_in
from benchmarks.verdicts import egointent_forms, egointent_several_forms
from lmms_egoplan.benchmarks.egointent.judge_protocol import (
    PAPER,
    RELEASE,
    SCALE,
    judge_prompt,
    read_rating,
    read_ratings,
    scale_of,
)
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.judging.text import read_rating as read_reply
from lmms_egoplan.judging.text import without_thinking
from patience import processor_time_below


def test_single_verdicts_are_read_as_meant():
    forms = set(egointent_forms())
    assert len(forms) >= 300
    assert [form for form in forms if read_reply(SCALE, form.reply, "stop") != form.rating] == []


def test_verdicts_on_several_fields_are_read_as_meant():
    forms = set(egointent_several_forms())
    assert len(forms) >= 300
    for kind, reply, ratings in forms:
        rating_by_field = read_ratings(without_thinking(reply))
        assert (kind, reply, *map(rating_by_field.get, FIELDS)) == (kind, reply, *ratings)
        mean = fmean(ratings) if None not in ratings else None
        assert read_reply(scale_of(FIELDS), reply, "stop") == mean


@pytest.mark.parametrize(
    ("verdict", "rating"),
    [
        ("They agree.\n[[85]]", 85),
        ("[[0]]", 0),
        ("**[[100]]**.", 100),
        ("[[ 62.5 ]]", 62.5),
        ("[[10]] at first, but no:\n[[20]]", 20),
        ("[[10]] at first, but no: [[20]]", None),
        ("Rating: [[85]]", 85),
        ("**Rating:** [[85]].", 85),
        ("[[85]]\nOnly the place differs.", 85),
        ("[[85]]\nWith the place, it would be [[100]].", 85),
        ("[[40]]\n[[60]]", None),
        ("A full match would get [[100]]. Rating: [[85]]", 85),
        ("I give [[85]].", None),
        ("[[85]] and then [[n]]", None),
        ("[[101]]", None),
        ("[[100.5]]", None),
        ("[[-1]]", None),
        ("[[85/100]]", None),
        ("[[85]]/100", None),
        ("[[٨٥]]", None),
        ("[[local_intent: 80]]", 80),
        ("[85]", 85),
        ("85", None),
        ("", None),
    ],
)
def test_reads_one_rating(verdict, rating):
    assert read_rating(verdict) == rating


@pytest.mark.parametrize(
    ("verdict", "ratings"),
    [
        (
            "[[local_intent: 80]]\n[[global_intent: 5]]\n[[next_step_plan:0]]",
            dict(zip(FIELDS, (80, 5, 0), strict=True)),
        ),
        (
            "[[Local Intent: 80]] [[next-step plan : 7.5 ]]",
            {"local_intent": 80, "next_step_plan": 7.5},
        ),
        ("[[local_intent: 80]] or\n[[local_intent: 70]]", {"local_intent": 70}),
        ("[[local_intent: 80]]\nor [[local_intent: 70]], as you like", {"local_intent": 80}),
        (
            "- **Local intent:** [[80]]\n- **Next step:** [[0]]",
            {"local_intent": 80, "next_step_plan": 0},
        ),
        ("[[local_intent: 80]] or [[local_intent: 70]]", {}),
        ("[[local_intent: 80]] [[local_intent: 70]]", {}),
        ("[[local_intent: 80]] [[local_intent: n]] [[other: 3]] [[9]]", {"local_intent": 80}),
        ("[[local_intent: 80]] [[local_intent: 8 or 9]]", {}),
        ("[[global_intent: 101]]", {}),
    ],
)
def test_reads_ratings_of_several_fields(verdict, ratings):
    assert read_ratings(verdict) == ratings


@given(TEXTS)
def test_any_verdict_is_read(verdict):
    rating = read_rating(verdict)
    assert rating is None or 0 <= rating <= SCALE.best
    assert all(0 <= rating <= SCALE.best for rating in read_ratings(verdict).values())
    assert read_rating(f"{verdict}\n[[35]]") in (35, None)
    assert read_ratings(f"{verdict}\n[[global_intent: 35]]").get("global_intent") in (35, None)


@given(st.sets(st.sampled_from(FIELDS), min_size=2), st.sets(st.sampled_from(FIELDS)))
def test_a_verdict_on_several_fields_needs_them_all(asked, rated):
    verdict = " ".join(f"[[{field}: 40]]" for field in sorted(rated))
    assert scale_of(sorted(asked)).read(verdict) == (40 if asked <= rated else None)


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("fields", [*([field] for field in FIELDS), FIELDS[:2], FIELDS])
def test_prompts_contain_texts_and_no_rating(fields, release):
    predictions = {field: f"<{field}> {{braces}}" for field in fields}
    prompt = judge_prompt(REFERENCES, predictions, RELEASE if release else PAPER)
    for field in FIELDS:
        assert (REFERENCES[field] in prompt) == (field in fields)
        assert prompt.count(f"<{field}>") == (field in fields)
    assert shown_in(prompt) == list(predictions.values())
    assert read_rating(prompt) is None
    assert read_ratings(prompt) == {}
    assert all(len(line) < 500 for line in prompt.splitlines())


def test_time_is_linear():
    for piece in (
        "[[",
        "[[8]] ",
        "\n[[8]]",
        "*",
        "\n",
        "[[8]]\n[start of the ",
        "**[[8]]**.\n",
        "<|",
    ):
        with processor_time_below(2):  # usually a twentieth; in square time, many
            read_rating(piece * (50_000 // len(piece)))
            read_ratings(piece * (50_000 // len(piece)))
