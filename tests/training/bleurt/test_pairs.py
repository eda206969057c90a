"""Draw the training pairs of the classifier."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.labelled_plans import ACTIVITIES, PLANS, record, write_plans
from lmms_egoplan.benchmarks.actplan.classifier_agreement import PlanPair, in_split
from lmms_egoplan.benchmarks.actplan.instances import InstanceId
from lmms_egoplan.benchmarks.actplan.plans import (
    LabelledInstance,
    LabelledPlan,
    read_activities,
    read_labelled_plans,
)
from lmms_egoplan.benchmarks.actplan.reply import one_per_line
from lmms_egoplan.training.bleurt.pairs import Recipe, TrainingPairs


def instances_of(folder, *records):
    return read_labelled_plans(write_plans(folder, records, ["train"] * len(records))[0])


def drawn(instances, epochs=400, **recipe):
    pairs = TrainingPairs(instances, Recipe(**recipe))
    return [pair for epoch in range(epochs) for pair in pairs.epoch(epoch)]


def test_complete_instance_gives_all_kinds(tmp_path):
    (instance,) = instances_of(tmp_path, record(1))
    golds, correct, wrong = (
        set(instance.golds),
        "grab(thing1) close(box)",
        "walk_to(box) switch-on(thing1)",
    )
    pairs = drawn([instance], 2000, shuffled="instance")
    shares = {
        kind: count / len(pairs) for kind, count in Counter(pair.source for pair in pairs).items()
    }
    assert shares == pytest.approx({"positive": 0.3, "wrong": 0.5, "shuffled": 0.2}, abs=0.04)
    assert all(pair.correct == (pair.source == "positive") for pair in pairs)
    positive = {(pair.gold, pair.candidate) for pair in pairs if pair.source == "positive"}
    assert positive == {(a, b) for a in (*golds, correct) for b in (*golds, correct) if a != b}
    assert {(pair.gold, pair.candidate) for pair in pairs if pair.source == "wrong"} == {
        (a, wrong) for a in golds
    }
    shuffled = {(pair.gold, pair.candidate) for pair in pairs if pair.source == "shuffled"}
    assert len([pair for pair in shuffled if pair[0] == instance.golds[0]]) == 5
    assert ("grab(cup) open(box)", "open(box) grab(cup)") in shuffled
    assert all(
        sorted(one_per_line(a).split("\n")) == sorted(one_per_line(b).split("\n")) != b
        for a, b in shuffled
    )


def steps(plan):
    return one_per_line(plan).split("\n")


def test_gold_first_pairs_begin_with_a_gold_plan(tmp_path):
    (instance,) = instances_of(tmp_path, record(1))
    golds, correct = set(instance.golds), "grab(thing1) close(box)"
    pairs = drawn([instance], 600, positives="gold-first")
    positive = {(pair.gold, pair.candidate) for pair in pairs if pair.correct}
    assert positive == {
        (gold, other) for gold in golds for other in (*golds, correct) if gold != other
    }
    negatives = [pair for pair in pairs if not pair.correct]
    assert negatives
    assert {pair.gold for pair in negatives} == golds


def same_activity(folder):
    """Return two instances of one activity, a counterfactual one of that name, and one of another
    activity.
    """
    path = "../annotation/{}/filling_a_box_1/{}/sample_0"
    records = [
        record(1, path=path.format("Scene_int", 0)),
        record(
            1,
            path=path.format("Other_int", 0),
            gold_gpt=["walk_to(sofa) grab(toy) open(lid)"],
            gold_gemini=[],
        ),
        record(
            1, path=path.format("Scene_int", 1), gold_gpt=["wash(a) dry(b) fold(c)"], gold_gemini=[]
        ),
        record(2, gold_gpt=["cut(d) peel(e) eat(f)"], gold_gemini=[]),
    ]
    plans, _ = write_plans(folder, records, ["train"] * 4)
    return read_labelled_plans(plans)


@pytest.mark.parametrize("shuffled", ["activity", "instance"])
def test_shuffled_plans_come_from_the_activity_or_the_instance(tmp_path, shuffled):
    instances = same_activity(tmp_path)
    first, second, counterfactual, other = instances
    pairs = TrainingPairs(instances, Recipe(shuffled=shuffled))
    golds_by_steps = [{}, {}, {}, {}]
    for epoch in range(500):
        for number, pair in enumerate(pairs.epoch(epoch)):
            if pair.source == "shuffled":
                golds_by_steps[number].setdefault(frozenset(steps(pair.candidate)), set()).add(
                    pair.gold
                )
    of_first = {frozenset(steps(gold)) for gold in first.golds}
    of_second = {frozenset(steps(second.golds[0]))}
    both = of_first | of_second
    assert set(golds_by_steps[0]) == (both if shuffled == "activity" else of_first)
    assert set(golds_by_steps[1]) == (both if shuffled == "activity" else of_second)
    # Counterfactual activities are activities of their own (Table 2: 100 and 53 of 153).
    assert set(golds_by_steps[2]) == {frozenset(steps(counterfactual.golds[0]))}
    assert set(golds_by_steps[3]) == {frozenset(steps(other.golds[0]))}
    for number, instance in enumerate(instances):
        assert set().union(*golds_by_steps[number].values()) == set(instance.golds)


_LONG, _SHORT = "walk_to(thing1) grab(thing1) place_inside(box, thing1)", "grab(cup) open(box)"
_WRONG = "walk_to(box) switch-on(thing1)"
EARLIER = [
    PlanPair(_SHORT, _WRONG, False, "wrong"),
    PlanPair(_LONG, _SHORT, True, "positive"),
    PlanPair(_LONG, _WRONG, False, "wrong"),
    PlanPair(_LONG, "place_inside(box, thing1) grab(thing1) walk_to(thing1)", False, "shuffled"),
    PlanPair(_SHORT, "open(box) grab(cup)", False, "shuffled"),
    PlanPair(_SHORT, _WRONG, False, "wrong"),
    PlanPair(_SHORT, _WRONG, False, "wrong"),
    PlanPair(_LONG, "grab(thing1) place_inside(box, thing1) walk_to(thing1)", False, "shuffled"),
]


def test_shuffled_plans_of_the_instance_match_earlier_versions(tmp_path):
    """Compare with stored draws of earlier versions: seed 5, epochs 0 to 7 of one instance."""
    instances = instances_of(tmp_path, record(1), record(2))
    pairs = TrainingPairs(instances, Recipe(seed=5, shuffled="instance"))
    assert [pairs.epoch(epoch)[0] for epoch in range(8)] == EARLIER


_NAMES = st.sampled_from("abc")
_PLAN = st.lists(_NAMES, min_size=1, max_size=4).map(
    lambda names: " ".join(f"open({name})" for name in names)
)


@settings(max_examples=60)
@given(
    golds=st.lists(st.tuples(_PLAN, st.none() | _PLAN), min_size=1, max_size=3),
    correct=st.lists(_PLAN, max_size=2),
    wrong=st.lists(_PLAN, max_size=1),
    recipe=st.builds(
        Recipe,
        positives=st.sampled_from(["mixed", "gold-first"]),
        shuffled=st.sampled_from(["activity", "instance"]),
        seed=st.integers(0, 9),
    ),
)
def test_every_pair_follows_the_recipe(golds, correct, wrong, recipe):
    plans = [
        LabelledPlan("GPT-4V", text, label)
        for texts, label in ((correct, True), (wrong, False))
        for text in texts
    ]
    instances = [
        LabelledInstance(InstanceId(f"scene{number}", "activity", 0, 0), *pair, tuple(plans))
        for number, pair in enumerate(golds)
    ]
    training = TrainingPairs(instances, recipe)
    assert len(training) + len(training.without_pair) == len(instances)
    usable = [instance for instance in instances if str(instance.id) not in training.without_pair]
    every_gold = [gold for pair in golds for gold in pair if gold]
    for epoch in range(20):
        for instance, pair in zip(usable, training.epoch(epoch), strict=True):
            assert pair.correct == (pair.source == "positive")
            if pair.source == "positive":
                assert pair.gold != pair.candidate
                assert {pair.gold, pair.candidate} <= {*instance.golds, *correct}
                assert recipe.positives == "mixed" or pair.gold in instance.golds
            elif pair.source == "wrong":
                assert pair.gold in instance.golds
                assert pair.candidate in wrong
            else:
                pool = every_gold if recipe.shuffled == "activity" else instance.golds
                assert pair.gold in instance.golds
                assert pair.candidate not in {*pool, *correct}
                assert any(sorted(steps(pair.candidate)) == sorted(steps(gold)) for gold in pool)


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"neg_gpt": []}, {"positive": 0.3, "shuffled": 0.7}),
        ({"gold_gemini": [], "pos_gemini": []}, {"wrong": 0.8, "shuffled": 0.2}),
        ({"gold_gemini": [], "pos_gemini": [], "neg_gpt": []}, {"shuffled": 1.0}),
        ({"gold_gpt": ["open(a) open(a)"], "gold_gemini": []}, {"positive": 0.3, "wrong": 0.7}),
        ({"gold_gpt": ["open(a)"], "gold_gemini": [], "neg_gpt": []}, {"positive": 1.0}),
        ({"gold_gpt": ["open(a)"], "gold_gemini": [(
            " open(a)\n"
        )], "pos_gemini": ["open(a)"]}, {"wrong": 1.0}),
        ({"gold_gpt": ["open(a)"], "gold_gemini": []}, {"positive": 0.3, "wrong": 0.7}),
    ],
)  # fmt: skip
def test_missing_kinds_are_replaced(tmp_path, fields, kinds):
    pairs = drawn(instances_of(tmp_path, record(1, **fields)), 1000)
    shares = {
        kind: count / len(pairs) for kind, count in Counter(pair.source for pair in pairs).items()
    }
    assert shares == pytest.approx(kinds, abs=0.05)


def test_instance_without_a_pair_is_reported(tmp_path):
    lonely = record(1, gold_gpt=["open(a) open(a)"], gold_gemini=[], neg_gpt=[], pos_gemini=[])
    pairs = TrainingPairs(instances_of(tmp_path, lonely, record(2)), Recipe())
    assert len(pairs) == 1
    assert pairs.without_pair == ["Scene_int/filling_a_box_1/0/sample_0"]


def test_draws_depend_on_seed_epoch_and_instance(tmp_path):
    instances = instances_of(tmp_path, *map(record, range(6)))
    pairs = TrainingPairs(instances, Recipe(seed=3))
    assert pairs.epoch(5) == TrainingPairs(instances, Recipe(seed=3)).epoch(5)
    assert TrainingPairs(instances[::-1], Recipe(seed=3)).epoch(5) == pairs.epoch(5)[::-1]
    assert pairs.epoch(5) != pairs.epoch(6)
    assert drawn(instances, 5, seed=3) != drawn(instances, 5, seed=4)


@pytest.mark.skipif(not PLANS.is_file(), reason="needs ../shared/data/actplan")
def test_published_instances():
    instances = in_split(read_labelled_plans(PLANS), read_activities(ACTIVITIES), "train")
    training = TrainingPairs(instances, Recipe())
    assert (len(training), training.without_pair) == (240, [])
