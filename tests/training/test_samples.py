"""Test the order of samples: it follows the parts' shares and depends only on the seed."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.training.samples import Mix, Sample, draw

WRONG = ("b", "c", "d", "e")


def samples(part, count, negatives=()):
    return [Sample(f"{part} {number}", (("q", "a"),), negatives) for number in range(count)]


PARTS = {"plan": samples("plan", 7, WRONG), "recognition": samples("recognition", 5), "empty": []}


def names(mix, first, count):
    return [mix.at(position).sample.name for position in range(first, first + count)]


def test_epochs_show_each_sample_once_in_different_orders():
    mix = Mix(PARTS, seed=3)
    assert mix.epoch_length == 12
    epochs = [names(mix, 12 * epoch, 12) for epoch in range(5)]
    assert all(len(set(epoch)) == 12 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 5


def test_proportions_hold_and_samples_of_a_part_take_turns():
    mix = Mix(PARTS, {"plan": 1, "recognition": 3}, seed=0)
    counts = Counter(names(mix, 0, 10 * mix.epoch_length))
    by_part = Counter()
    for name, count in counts.items():
        by_part[name.split()[0]] += count
    assert by_part == {"plan": 30, "recognition": 90}
    assert {counts[f"plan {number}"] for number in range(7)} <= {4, 5}
    assert {counts[f"recognition {number}"] for number in range(5)} == {18}


def test_position_determines_sample_and_negative():
    drawn = [(one.sample.name, one.negative) for one in map(Mix(PARTS, seed=1).at, range(60))]
    backwards = [
        (one.sample.name, one.negative) for one in map(Mix(PARTS, seed=1).at, reversed(range(60)))
    ]
    assert drawn == backwards[::-1]
    assert drawn != [
        (one.sample.name, one.negative) for one in map(Mix(PARTS, seed=2).at, range(60))
    ]


def test_negatives_are_drawn_equally_often():
    mix = Mix({"plan": PARTS["plan"]}, seed=0)
    negatives = Counter(mix.at(position).negative for position in range(7 * 400))
    assert set(negatives) == set(WRONG)
    assert all(600 < count < 800 for count in negatives.values())


def test_every_turn_of_a_dialogue_can_be_drawn():
    sample = Sample("x", (("q1", "a1"), ("q2", "a2"), ("q3", "a3")))
    drawn = {draw(sample, str(seed)).turn for seed in range(40)}
    assert drawn == {0, 1, 2}


@pytest.mark.parametrize(
    ("proportions", "message"),
    [
        ({"plan": 0}, "proportions: plan: 0"),
        ({"empty": 1}, "proportions: empty: 1.* empty: 0"),
        ({"plans": 1}, "proportions: plans: .*plan, recognition, empty"),
        ({"plan": -1}, "proportions: plan: .*-1"),
        ({"plan": float("nan")}, "proportions: plan: .*nan"),
        ({"plan": 1}, "proportions: recognition: "),
    ],
)
def test_invalid_proportions_are_refused(proportions, message):
    with pytest.raises(LmmsEgoplanError, match=message):
        Mix(PARTS, proportions)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 20), st.floats(0.01, 5)), min_size=1, max_size=5))
def test_each_part_has_its_share_of_forty_epochs(parts):
    mix = Mix(
        {f"{number}": samples(f"{number}", size) for number, (size, _) in enumerate(parts)},
        {f"{number}": share for number, (_, share) in enumerate(parts)},
    )
    before = Counter()
    for epoch in range(1, 41):
        now = Counter(dict(zip(mix.shares, mix._num_before(epoch), strict=True)))
        assert all(now[name] >= before[name] for name in mix.shares)
        assert sum(now.values()) == epoch * mix.epoch_length
        for name, share in mix.shares.items():
            assert abs(now[name] - share * epoch * mix.epoch_length) <= 2
        before = now


def test_tiny_share_gets_no_negative_count():
    sizes = {"a": 20, "b": 12, "c": 9, "d": 5, "e": 6}
    shares = dict(zip(sizes, (3, 0.03, 1, 2, 0.1), strict=True))
    mix = Mix({name: samples(name, size) for name, size in sizes.items()}, shares)
    counts = Counter(name.split()[0] for name in names(mix, 0, 40 * mix.epoch_length))
    total = sum(shares.values())
    for name, share in shares.items():
        assert counts[name] == pytest.approx(share / total * 40 * 52, abs=1.5)
