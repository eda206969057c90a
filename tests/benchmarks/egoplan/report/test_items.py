"""EgoPlan's questions in the report's gallery."""

import json
import math

import pytest

from benchmarks.egoplan.report.synthetic_runs import ANSWERS, COUNT, DOCS, LETTERS, group_of, run_of, scores, task_of
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from media.files import read_numbers
from report.joined import near

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(scope="module")
def items(runs):
    return EgoPlanReport(runs).items()


def test_a_question_of_the_gallery(items):
    assert [item.key for item in items] == [f"egoplan/{number + 1}" for number in range(COUNT)]
    for number in (0, 25, 90):
        item, doc = items[number], DOCS[number]
        assert (item.question, item.choices) == (doc["question"], tuple(doc["choices"]))
        assert LETTERS[item.gold] == doc["golden_choice_idx"]
        assert item.facts["past actions"] == group_of(doc)
        assert item.facts["source"].startswith("Ego4D" if doc["video_source"] == "Ego4D" else "EPIC-KITCHENS")
        assert item.references["Goal"] == doc["task_goal"]
        assert set(item.answers) == {
            f"{run_of(name)} ({task_of(name)})" if run_of(name) != "Small" else "Small" for name in ANSWERS
        }


def test_answers_of_the_gallery(items):
    for name in ANSWERS:
        label = "Small" if name == "Small" else f"{run_of(name)} ({task_of(name)})"
        for item, score, response in zip(items, scores(name), ANSWERS[name].responses, strict=True):
            shown = item.answers[label]
            assert shown.verdict == {1: "right", 0: "wrong", None: "unscored"}[score]
            if len(response) == 1:
                assert (shown.text, shown.logprobs) == (response[0], None)
                assert (shown.rating is None) == (response[0] != "I cannot tell.")
                continue
            losses = [json.loads(text)["loss"] for text in response]
            expected = [None if math.isnan(loss) else near(-loss) for loss in losses]
            assert list(shown.logprobs) == expected
            assert shown.chosen == (None if score is None else losses.index(min(losses)))
            assert (shown.chosen == item.gold) == (score == 1)


@pytest.mark.parametrize("source", ["EpicKitchens", "Ego4D"])
def test_images_of_the_gallery_are_what_was_shown(items, source):
    number = next(n for n, doc in enumerate(DOCS) if doc["video_source"] == source and len(doc["past_actions"]) > 6)
    shown = read_numbers(items[number].images())
    assert len(shown) == 8
    assert shown == sorted(shown)
    assert shown[-1] == DOCS[number]["current_observation_frame"]
