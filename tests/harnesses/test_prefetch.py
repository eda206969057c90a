"""`prefetch` keeps the order, looks a bounded number of items ahead, and works while its consumer does."""

import threading

import pytest

from lmms_egoplan.harnesses.prefetch import prefetch
from patience import FOREVER_S


def test_order_is_kept_though_later_items_load_faster():
    later = threading.Event()

    def load(item):
        if item == 0:
            assert later.wait(FOREVER_S)
        else:
            later.set()
        return item * 10

    assert list(prefetch(range(6), load, workers=2, ahead=2)) == [(i, i * 10) for i in range(6)]


def test_nothing_to_load():
    assert list(prefetch([], str, workers=1, ahead=1)) == []


def test_loads_ahead_while_the_consumer_works_and_no_further():
    ahead = 3
    loaded = [threading.Event() for _ in range(10)]

    def load(item):
        loaded[item].set()

    items = prefetch(range(10), load, workers=2, ahead=ahead)
    for item, _ in items:
        for event in loaded[: item + ahead + 1]:  # while this item is the consumer's
            assert event.wait(FOREVER_S)
        assert not any(event.is_set() for event in loaded[item + ahead + 1 :])


def test_an_error_comes_at_its_items_turn():
    def load(item):
        if item == 2:
            raise ValueError("no item 2")
        return item

    items = prefetch(range(5), load, workers=2, ahead=4)
    assert [next(items), next(items)] == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="no item 2"):
        next(items)


def test_a_consumer_that_stops_leaves_the_rest_unloaded():
    loaded = []
    items = prefetch(range(100), loaded.append, workers=1, ahead=2)
    next(items)
    items.close()
    assert len(loaded) <= 3
    assert not any(thread.name.startswith("prefetch") for thread in threading.enumerate())
