from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egoplan.wording import content, named_in_order, near_key


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("put meat mix on dough", "put mix meat on dough"),
        ("take plate", "Take the plates."),
        ("get meat", "get some meat"),
        ("wash hand", "wash her hands"),
        ("chop parsley", "chopping parsley"),
        ("put down knife", "put down knives"),
        ("turn off tap", "turn tap off"),
        ("pick tomato up", "pick up those tomatoes"),
        ("put leaf in box", "putting leaves in the boxes"),
        ("wash cup and plate", "wash plate and cup"),
        ("take caf\u00e9 cups", "take cafe\u0301 cup"),
    ],
)
def test_near_equal_actions_share_a_key(first, second):
    assert near_key(first) == near_key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("put cup on plate", "put plate on cup"),
        ("pour water into milk", "pour milk into water"),
        ("open drawer", "close drawer"),
        ("turn on tap", "turn off tap"),
        ("put plate in sink", "put plate on sink"),
        ("take knife", "take other knife"),
        ("take cup", "take two cups"),
        ("wash pan", "wash pan with sponge"),
        ("take knife from drawer", "take drawer from knife"),
        ("put down plate", "put up plate"),
        ("peel onion", "take peeler"),
    ],
)
def test_different_actions_have_different_keys(first, second):
    assert near_key(first) != near_key(second)


def longest(words, actions, start=0):
    """Try all positions of each action, with at most two words between its own words."""
    if not actions:
        return 0
    later_actions, action_words = actions[1:], content(actions[0])
    best = longest(words, later_actions, start)
    for positions in combinations(range(start, len(words)), len(action_words)):
        is_near = all(after - before <= 3 for before, after in pairwise(positions))
        if is_near and all(
            words[position] == word for position, word in zip(positions, action_words, strict=True)
        ):
            best = max(best, 1 + longest(words, later_actions, positions[-1] + 1))
    return best


words = st.sampled_from(["take", "open", "cup", "box"])
phrases = st.lists(words, min_size=1, max_size=3).map(" ".join)


@settings(deadline=None, max_examples=150)
@given(st.lists(words, max_size=9).map(" ".join), st.lists(phrases, max_size=4))
def test_actions_named_in_order_equal_a_slow_count(goal, actions):
    assert named_in_order(goal, actions) == longest(content(goal), actions)


def test_an_action_without_content_is_never_named():
    assert named_in_order("tidy up the room", ["up", "the", "tidy room"]) == 1
