"""Scores of verdicts against counts by hand."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.labelled_plans import ACTIVITIES, PLANS, record, write_plans
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks.actplan.bleurt import (
    Verdict,
    evaluate_bleurt,
    in_split,
    labelled_pairs,
    load_classifier,
    score_verdicts,
    unknown_activities,
)
from lmms_egoplan.benchmarks.actplan.commands import TABLE_5
from lmms_egoplan.benchmarks.actplan.plans import read_activities, read_labelled_plans
from lmms_egoplan.errors import LmmsEgoplanError

real_data = pytest.mark.skipif(not PLANS.is_file(), reason="needs ../shared/data/actplan")


def verdict(correct, truncated=False):
    return Verdict(correct, float(correct), truncated)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_as_counted_by_hand(cases):
    scores = score_verdicts([label for label, _, _ in cases], [verdict(*each) for _, *each in cases])
    tp, fp, fn, tn = (
        sum((label, called) == cell for label, called, _ in cases)
        for cell in ((True, True), (False, True), (True, False), (False, False))
    )
    assert (scores.true_correct, scores.false_correct, scores.false_wrong, scores.true_wrong) == (tp, fp, fn, tn)
    assert scores.plans == len(cases) == tp + fp + fn + tn
    assert scores.accuracy == pytest.approx((tp + tn) / len(cases))
    assert scores.majority == pytest.approx(max(tp + fn, fp + tn) / len(cases))
    assert scores.truncated == sum(cut for _, _, cut in cases)
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    if margins:
        assert scores.mcc == pytest.approx((tp * tn - fp * fn) / margins**0.5)
    else:
        assert scores.mcc is None


def test_evaluates_a_split_by_model(tmp_path):
    encoder = write_encoder(tmp_path / "encoder")
    classifier = load_classifier(write_classifier(tmp_path / "classifier", encoder))
    records = [record(0), record(1), record(2, neg_gpt=[], gold_gpt=["grab(cup) " * 300]), record(3)]
    plans, activities = write_plans(tmp_path, records, ["val", "train", "val", None])
    by_model, unknown = evaluate_bleurt(classifier, plans, activities, "val")
    assert unknown == {"filling_a_box_3": 1}
    assert list(by_model) == ["GPT-4V", "Gemini-Pro-1.5"]
    gpt, gemini = by_model.values()
    assert (gpt.plans, gpt.false_correct + gpt.true_wrong, gpt.majority, gpt.truncated) == (1, 1, 1.0, 0)
    assert (gemini.plans, gemini.true_correct + gemini.false_wrong, gemini.truncated) == (2, 2, 1)
    with pytest.raises(
        LmmsEgoplanError, match="no labelled plans of the split test in it; it has instances of train, v"
    ):
        evaluate_bleurt(classifier, plans, activities, "test")


def test_labelled_plans_stand_beside_the_gold_plan_of_the_other_model(tmp_path):
    records = [record(1, neg_gemini=["close(a)\n close(b)"]), record(2, gold_gemini=[]), record(3)]
    plans, activities = write_plans(tmp_path, records, ["train", None, "val"])
    instances, splits = read_labelled_plans(plans), read_activities(activities)
    assert unknown_activities(instances, splits) == {"filling_a_box_2": 1}
    assert [instance.id.activity for instance in in_split(instances, splits, "val")] == ["filling_a_box_3"]
    first, second, _ = instances
    assert [(pair.gold, pair.candidate, pair.correct, pair.source) for pair in labelled_pairs(instances[:2])] == [
        (first.gold_2, "walk_to(box) switch-on(thing1)", False, "GPT-4V"),
        (first.gold_1, "grab(thing1) close(box)", True, "Gemini-Pro-1.5"),
        (first.gold_1, "close(a) close(b)", False, "Gemini-Pro-1.5"),
        (second.gold_1, "walk_to(box) switch-on(thing2)", False, "GPT-4V"),
        (second.gold_1, "grab(thing2) close(box)", True, "Gemini-Pro-1.5"),
    ]


@real_data
@pytest.mark.parametrize("classifier", TABLE_5)
@pytest.mark.parametrize("model", ["GPT-4V", "Gemini-Pro-1.5"])
def test_the_papers_val_scores_are_of_these_pairs(classifier, model):
    """One way alone to judge the val plans gives the printed accuracy and the printed MCC."""
    instances = in_split(read_labelled_plans(PLANS), read_activities(ACTIVITIES), "val")
    labels = [pair.correct for pair in labelled_pairs(instances) if pair.source == model]
    correct, wrong = labels.count(True), labels.count(False)
    found = []
    for true_correct in range(correct + 1):
        for false_correct in range(wrong + 1):
            called = [True] * true_correct + [False] * (correct - true_correct)
            called += [True] * false_correct + [False] * (wrong - false_correct)
            right = true_correct + wrong - false_correct
            if f"{right / len(labels):.1%}" != f"{TABLE_5[classifier][model]['val_acc']}%":
                continue
            scores = score_verdicts(sorted(labels, reverse=True), [verdict(each) for each in called])
            found += [scores] * (f"{scores.mcc or 0:.3f}" == f"{TABLE_5[classifier][model]['mcc']:.3f}")
    (scores,) = found
    assert scores.plans == 81
    assert f"{scores.majority:.1%}" == {"GPT-4V": "77.8%", "Gemini-Pro-1.5": "71.6%"}[model]


def test_the_papers_table():
    assert {(name, model) for name, rows in TABLE_5.items() for model in rows} == {
        (name, model) for name in ("BLEURT", "BLEURT-base") for model in ("GPT-4V", "Gemini-Pro-1.5")
    }
    assert [TABLE_5["BLEURT"]["Gemini-Pro-1.5"][key] for key in ("mcc", "val_acc", "test_acc")] == [0.321, 75.3, 80.2]


@real_data
def test_published_pairs():
    instances, splits = read_labelled_plans(PLANS), read_activities(ACTIVITIES)
    pairs = labelled_pairs(in_split(instances, splits, "val"))
    assert Counter((pair.source, pair.correct) for pair in pairs) == {
        ("GPT-4V", True): 18,
        ("GPT-4V", False): 63,
        ("Gemini-Pro-1.5", True): 23,
        ("Gemini-Pro-1.5", False): 58,
    }
