import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.slow import lcs, normalised
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks.actplan.classifier import load_classifier
from lmms_egoplan.benchmarks.actplan.metrics import (
    LENGTH_BINS,
    broken_down,
    classifier_names,
    details,
    length_bin,
    score_plan,
)
from lmms_egoplan.benchmarks.actplan.plans import GeneratedPlan
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore, score_plans
from lmms_egoplan.benchmarks.aggregations import mean_score
from lmms_egoplan.coverage import coverage

pytestmark = pytest.mark.usefixtures("real_encoder")

GOLD = ["walk_to(table)", "grab(cup)", "walk_to(sink)", "place_inside(sink, cup)"]
OTHER = ["walk_to(table)", "grab(the_cup)"]


def score(text, *references, **fields) -> PlanScore:
    (scored,) = score_plans([GeneratedPlan("a/b/0/sample_0", text, references, **fields)])
    return scored


def test_a_plan_equal_to_gold_plan_1():
    measures = score("\n".join(GOLD), GOLD, OTHER).measures()
    assert measures["lcs"] == measures["lcs_best"] == measures["lcs_parsed"] == 4
    assert measures["lcs_norm"] == measures["form_validity"] == 1
    assert measures["lcs_gold_2"] == lcs(GOLD, OTHER) == 2
    assert measures["lcs_norm_gold_2"] == 0.5


def test_the_readings_differ_if_other_text_surrounds_the_plan():
    """The authors' split keeps every line, and this plan has lines that are not steps."""
    text = "Here is the plan:\n\n" + "\n".join(f"{n}. **{step}**" for n, step in enumerate(GOLD, 1))
    scored = score(text, GOLD)
    assert len(scored.official) == 6
    assert scored.parsed == GOLD
    measures = scored.measures()
    assert measures["lcs_norm_parsed"] == 1
    assert measures["lcs"] == lcs(scored.official, GOLD)
    assert measures["lcs_norm"] == normalised(measures["lcs"], scored.official, GOLD) < 1


@pytest.mark.parametrize("text", ["", " \n\n", "\t"])
def test_an_empty_plan_scores_0(text):
    scored = score(text, GOLD, OTHER)
    measures = scored.measures()
    assert (scored.official, scored.parsed) == ([], [])
    assert [
        measures[name] for name in ("lcs", "lcs_norm", "lcs_best", "lcs_norm_parsed", "plan_length")
    ] == [0] * 5
    assert measures["form_validity"] is None


def test_a_missing_gold_plan_has_no_score():
    measures = score("\n".join(GOLD), GOLD, []).measures()
    assert measures["lcs_gold_2"] is measures["lcs_norm_gold_2"] is None
    assert measures["lcs_norm_best"] == 1
    measures = score("\n".join(GOLD), [], OTHER).measures()
    assert measures["lcs"] is measures["lcs_norm"] is measures["lcs_norm_parsed"] is None
    assert measures["lcs_best"] == 2


def test_a_score_names_the_equal_steps_of_each_gold_plan():
    """Positions count blank lines, as the score does. The first of two equal lengths is chosen."""
    text = f"I would do this:\n{GOLD[1]}\n\n{GOLD[0]}\n{GOLD[2]}"
    scored = score(text, [GOLD[0], "", *GOLD[1:]], [])
    assert (scored.alignments, scored.lcs_each) == ([[[1, 2], [4, 3]], None], [2, None])


def test_plans_keep_their_order():
    texts = ["\n".join(GOLD[:count]) for count in (3, 1, 4, 0, 2)]
    plans = [GeneratedPlan(str(number), text, (GOLD,)) for number, text in enumerate(texts)]
    assert [scored.measures()["lcs"] for scored in score_plans(plans)] == [3, 1, 4, 0, 2]


def test_the_classifier_compares_with_the_first_existing_gold_plan(tmp_path):
    folder = str(write_classifier(tmp_path / "classifier", write_encoder(tmp_path / "bert")))
    texts = ["\n".join(GOLD), "1. " + GOLD[0], "", "I'm sorry, I can't help with that."]
    plans = [
        GeneratedPlan(text, text, references)
        for text in texts
        for references in ((GOLD, OTHER), ([], OTHER))
    ]
    scored = score_plans(plans, classifier=folder)
    for plan, plan_score in zip(plans, scored, strict=True):
        gold = next(reference for reference in plan.references if reference)
        if not plan_score.parsed:
            assert (
                plan_score.bleurt,
                plan_score.bleurt_probability,
                plan_score.bleurt_truncated,
            ) == (
                False,
                None,
                None,
            )
            continue
        pair = (" ".join(gold), " ".join(plan_score.parsed))
        (verdict,) = load_classifier(folder).judge([pair])
        assert plan_score.bleurt == verdict.correct
        assert plan_score.bleurt_probability == pytest.approx(verdict.probability, abs=1e-6)
    assert {plan_score.bleurt is None for plan_score in scored} == {False}


@given(st.lists(st.tuples(st.text(), st.booleans() | st.none()), min_size=10, max_size=30))
@settings(max_examples=5)
def test_a_score_survives_serialization(answers):
    plans = [GeneratedPlan("a", text, (GOLD,), truncated=truncated) for text, truncated in answers]
    for scored in score_plans(plans):
        carried = scored.to_text()
        assert "<" not in carried
        assert carried == carried.strip()
        assert PlanScore.from_text(carried) == scored


@pytest.mark.parametrize(
    "change",
    [
        {"lcs_each": [-1]},
        {"lcs_each": [1, 2]},
        {"lcs_each": []},
        {"alignments": [[[0, 0]]]},
        {"alignments": [[[0, 0, 0]] * 4]},
        {"official": "walk"},
        {"form_validity": 2.0},
        {"bleurt": "yes"},
        {"encoder": None},
        {"parsed": None},
    ],
)
def test_another_text_is_not_a_scored_plan(change):
    values = json.loads(score("\n".join(GOLD), GOLD).to_text())
    for text in (
        json.dumps(values | change),
        json.dumps({**values, "more": 1}),
        "[]",
        "walk_to(table)",
        "[" * 100000,
    ):
        with pytest.raises(ValueError, match="expected a scored plan"):
            PlanScore.from_text(text)


DOC = {
    "id": "a/b/0/sample_0",
    "setting": "normal",
    "activity": "b",
    "activity_type": "other",
    "split_size": 4,
    "question_set": "official",
    "gold_plan_1": GOLD,
    "gold_plan_2": [],
}


def test_values_of_a_plan():
    scored = score("\n".join(GOLD[:2]), GOLD, [], truncated=True)
    values = score_plan(DOC, [scored.to_text()])
    assert values["lcs_norm"]["score"] == 0.5
    assert values["lcs_norm"]["cluster"] == "b"
    assert values["details"]["plan"]["parsed"] == GOLD[:2]
    assert values["details"]["plan"]["activity"] == "b"
    assert values["lcs_norm_gold_2"] == {"cluster": "b"}
    assert "bleurt_correct" not in values
    assert math.isnan(mean_score([values["lcs_norm_gold_2"]]))
    assert coverage([values["coverage"]] * 3) == 3 / 1187
    breakdown = values["details"]["breakdown"]
    assert breakdown["groups"] == {"setting": "normal", "length": "1-10", "activity_type": "other"}
    assert breakdown["measures"] == {"lcs_norm": 0.5, "lcs_norm_parsed": 0.5}
    with pytest.raises(ValueError, match="got the scored plan of"):
        score_plan(DOC | {"id": "another"}, [scored.to_text()])
    judged = replace(
        scored,
        bleurt=True,
        bleurt_probability=0.75,
        bleurt_truncated=False,
        classifier="/models/bleurt",
    )
    values = score_plan(DOC, [judged.to_text()])
    assert values["bleurt_correct"] == {"cluster": "b", "score": 1.0}
    assert values["bleurt_truncated"] == {"cluster": "b", "score": 0.0}
    aggregated = details([values["details"]])
    assert aggregated["breakdown"]["setting"]["normal"]["bleurt_correct"] == 1.0
    assert aggregated["bleurt_model"] == "/models/bleurt"
    assert classifier_names([None]) == "none: LMMS_EGOPLAN_BLEURT is not set"


def test_bins_of_lengths():
    names = [length_bin(steps) for steps in range(1, 200)]
    assert [names.count(name) for name in dict.fromkeys(names)] == [10] * len(LENGTH_BINS) + [
        199 - LENGTH_BINS[-1]
    ]
    assert (names[0], names[9], names[10], names[-1]) == ("1-10", "1-10", "11-20", "51+")
    assert length_bin(None) == "unknown"


def test_groups_are_sorted_and_skip_undefined_values():
    entries = [
        {
            "groups": {"setting": "normal", "length": group, "activity_type": "other"},
            "measures": {"lcs_norm": score},
        }
        for group, score in (
            ("51+", 1),
            ("1-10", None),
            ("11-20", None),
            ("51+", 0.000_04),
            ("1-10", 3),
            ("unknown", 1),
        )
    ]
    by_length = broken_down(entries)["length"]
    assert list(by_length) == ["unknown", "1-10", "11-20", "51+"]
    means = {group: numbers["lcs_norm"] for group, numbers in by_length.items()}
    assert (means["51+"], means["1-10"]) == (0.5, 3)
    assert math.isnan(means["11-20"])
    plans = {group: numbers["plans"] for group, numbers in by_length.items()}
    assert plans == {"unknown": 1, "1-10": 1, "11-20": 0, "51+": 2}
