"""Keys of options, and the majority of several labels."""

import re

import pytest

from lmms_egoplan.annotation.actplan import FLOW as ACTPLAN
from lmms_egoplan.annotation.egoplan import FLOW as EGOPLAN
from lmms_egoplan.annotation.egothink import FLOW as EGOTHINK
from lmms_egoplan.annotation.forms import (
    Choice,
    Form,
    FormError,
    Marks,
    Moment,
    Option,
    Words,
    majority,
)
from lmms_egoplan.annotation.pages import field_keys

TEXTS = [
    ("open drawer", "2 eggs", "take 3 cups", "1 more"),
    ("2 eggs", "2 cups", "12 plates", "0.5 l of milk"),
    ("5", "4", "3", "2", "1", "0"),
    ("9", "a", "b", "c", "d", "e", "f", "g", "h", "i"),
]


def choice(name, texts):
    return Choice(
        name, name, tuple(Option(f"{name} {number}", text) for number, text in enumerate(texts))
    )


def forms():
    letters = dict(zip("ABCD", TEXTS[0], strict=True))
    question = {
        "goal": "cook",
        "choices": letters,
        "video": "v",
        "frames": [],
        "fps": 10,
        "observation": 1,
    }
    yield from (EGOPLAN.form(question, (), order) for order in range(24))
    yield EGOTHINK.form({"image": "i", "question": "q", "reference": "r", "answer": "a"})
    yield ACTPLAN.form({"description": "d", "images": [], "plan": "a(b)"})
    yield from (
        Form((), tuple(choice(str(number), texts) for number in range(5))) for texts in TEXTS
    )


def test_keys_are_unique_and_match_option_texts():
    for form in forms():
        keys = field_keys(form)
        all_keys = [key for option_keys in keys.values() for key in option_keys.values()]
        assert len({*all_keys}) == len(all_keys)
        for field in form.fields:
            texts = {option.value: option.text for option in field.options}
            for value, key in keys.get(field.name, {}).items():
                number = re.match(r"[\d.]+", texts[value])
                assert not key.isdigit() or number is None or number[0][-1] == key
                conflicting_texts = [
                    text for other, text in texts.items() if other != value and text.startswith(key)
                ]
                assert not key.isdigit() or number is not None or not conflicting_texts


def test_ratings_have_matching_keys():
    (rating,) = field_keys(
        EGOTHINK.form({"image": "i", "question": "", "reference": "", "answer": ""})
    ).values()
    assert rating == {"0": "0", "0.5": "5", "1": "1"}
    plan = field_keys(ACTPLAN.form({"description": "d", "images": [], "plan": "a(b)"}))
    assert plan["correct"] == {"1": "1", "0": "0"}
    assert plan["commonsense"] == {"1": "q", "0": "w"}
    assert len(plan["errors"]) == 6


FORM = Form(
    (),
    (
        choice("kind", "ab"),
        Marks("errors", "Errors", (Option("x", "X"), Option("y", "Y")), 3),
        Words("text", "Text"),
        Moment("end", "End", (0.0, 1.0, 2.0), 2.0, 0.0, 1.0),
    ),
)


@pytest.mark.parametrize(
    ("labels", "combined"),
    [
        (
            [
                {"kind": "kind 0", "errors": {"x": [1], "y": [0]}, "text": "a", "end": 2.0},
                {"kind": "kind 1", "errors": {"x": [3]}, "text": "b", "end": 1.0},
            ],
            {"errors": {"x": [1, 3]}, "text": "a", "end": 2.0},
        ),
        (
            [
                {"kind": "kind 0", "errors": {}},
                {"kind": "kind 1", "errors": {"y": [2]}, "text": "b"},
                {"kind": "kind 1", "errors": {"y": [1, 2]}, "text": "b"},
            ],
            {"kind": "kind 1", "errors": {"y": [1, 2]}, "text": "b"},
        ),
        ([{"kind": "kind 1", "errors": {}}], {"kind": "kind 1", "errors": {}}),
    ],
)
def test_majority_combines_labels(labels, combined):
    assert majority(FORM, labels) == combined


def test_times_of_a_clip_count_its_frames():
    """The video's frames are unequally long, but those of the clip are not."""
    end = Moment("end", "End", (2.0, 3.5, 3.6), 3.6, 1.5, 0.5)
    assert end.clip_times == (0.5, 1.0, 1.5)
    assert [end.from_clip_time([str(time)]) for time in (0.3, 0.5, 1.1, 1.5, 1.74)] == [
        2.0,
        2.0,
        3.5,
        3.6,
        3.6,
    ]
    for sent in (["0.2"], ["1.8"], ["inf"], ["x"], [], ["0.5", "1"]):
        with pytest.raises(FormError, match=r"End: expected a time from 0\.500 to 1\.500"):
            end.from_clip_time(sent)
