"""`prefetch` keeps the order, looks a bounded number of items and bytes ahead, and works while its
consumer does.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from functools import partial
from operator import itemgetter
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace

import joblib
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.harnesses.prefetch import (
    MOST_WORKERS,
    Batching,
    num_workers,
    prefetch,
    processes_here,
)
from lmms_egoplan.memory_ahead import PEAK, RESERVE
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


class _Loaded:
    """An item in memory."""


def test_a_consumer_that_stops_frees_all_items():
    alive = weakref.WeakSet()

    def load(_):
        loaded = _Loaded()
        alive.add(loaded)
        return loaded

    gc.disable()
    try:
        results = prefetch(range(20), load, workers=2)
        next(results)
        results.close()
        assert not list(alive)
    finally:
        gc.enable()


def test_a_consumer_that_stops_leaves_the_rest_unloaded():
    loaded = []
    items = prefetch(range(100), loaded.append, workers=1, ahead=2)
    next(items)
    items.close()
    assert len(loaded) <= 3
    assert not any(thread.name.startswith("prefetch") for thread in threading.enumerate())


class Memory:
    """Counts the bytes of all blocks that exist."""

    def __init__(self):
        self.now = self.peak = 0
        self.lock = threading.Lock()

    def add(self, size):
        with self.lock:
            self.now += size
            self.peak = max(self.peak, self.now)


class Held(Memory):
    """Counts the bytes that are loaded but not yet passed to the consumer."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def load(self, item):
        RESERVE.get()(self.sizes[item])
        self.add(self.sizes[item])
        return item, self.sizes[item]


def peak_of(sizes, workers, **options):
    """Return the largest number of bytes that are ahead while items of these sizes are read, with a
    limit of 1000.
    """
    held = Held(sizes)
    for item, _ in prefetch(
        range(len(sizes)), held.load, workers, size=itemgetter(1), limit=1000, **options
    ):
        held.add(-sizes[item])
    return held.peak


def test_what_is_ahead_takes_no_more_bytes_than_the_limit():
    assert 100 <= peak_of([100] * 200, workers=8, ahead=50) <= 1000


def test_an_item_above_the_limit_is_loaded_alone():
    assert peak_of([5000] * 5, workers=4) == 5000


class Block:
    def __init__(self, memory, size):
        self.memory, self.size = memory, size
        memory.add(size)

    def __del__(self):
        self.memory.add(-self.size)


@st.composite
def runs(draw):
    """Draw sizes of items, with a small one first, and the settings of a run."""
    count = draw(st.sampled_from([1, 2, 5, 15, 40]))
    largest = draw(st.sampled_from([20, 100, 400, 900, 3000]))
    sizes = draw(st.lists(st.integers(1, largest), min_size=count, max_size=count))
    sizes[0] = draw(st.sampled_from([1, sizes[0]]))
    position = st.none() | st.integers(0, count - 1)
    return SimpleNamespace(
        sizes=sizes,
        encoded_size=draw(st.sampled_from([1, 2, 4])),  # relative to the loaded one
        workers=draw(st.integers(1, 16)),
        batch_size=draw(st.sampled_from([None, 1, 3, 8])),
        announces=draw(st.booleans()),
        fault=draw(position),
        stop=draw(position),
    )


def results_of(run, memory):
    """Return the results of a run, whose blocks are counted in `memory`."""

    def load(item):
        if item == run.fault:
            raise ValueError("no such item")
        if run.announces:
            RESERVE.get()(run.sizes[item])
        return "a", Block(memory, run.sizes[item]), item

    def encode(batch):
        items = [item for item, _ in batch]
        return items, Block(memory, run.encoded_size * sum(run.sizes[item] for item in items))

    def size(result):
        return result[1].size

    items = range(len(run.sizes))
    if run.batch_size:
        return batched(items, load, run.batch_size, encode, run.workers, weight=size)
    return prefetch(
        items, lambda item: encode([(item, load(item))]), run.workers, size=size, limit=1000
    )


@settings(max_examples=200)
@given(runs())
def test_order_memory_and_errors_of_any_run(run):
    memory = Memory()
    PEAK.num_bytes = 0
    results = results_of(run, memory)
    seen = []
    try:
        while (result := next(results, None)) is not None:
            seen += result[0] if run.batch_size else result[1][0]
            del result
            if run.stop in seen:
                results.close()
                break
    except ValueError:
        assert run.fault in range(len(seen), len(seen) + (run.batch_size or 1))
    else:
        assert run.stop in seen or seen == [*range(len(run.sizes))]
        assert run.fault not in seen
    assert seen == list(range(len(seen)))
    if run.fault is None:  # otherwise the error refers to stack frames with the items
        assert memory.now == 0
    largest = (run.batch_size or 1) * (1 + run.encoded_size) * max(run.sizes)
    assert PEAK.num_bytes <= max(1000, 2 * largest)
    # An item that does not announce its size is counted when its worker has loaded it.
    uncounted = 1 if run.announces else run.workers
    assert memory.peak <= max(1000, largest) + uncounted * largest


def test_a_small_item_first_and_big_ones_after_it():
    """With 16 workers, each big item takes 0.4 of the limit."""
    assert peak_of([1] + [200] * 30, workers=16) <= 1000


def test_processes_of_a_machine_share_the_limit(monkeypatch):
    for variable in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "8")
            assert processes_here() == 8
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert processes_here() == 1


def batched(items, load, size, encode=tuple, workers=3, limit=1000, weight=len):
    batching = Batching(lambda first, item: first[1][0] == item[1][0], size, encode, weight)
    return prefetch(items, load, workers, size=weight, batching=batching, limit=limit)


def test_batches_are_of_consecutive_items_that_are_alike():
    kinds = "aaaabbabbbbb"
    batches = batched(enumerate(kinds), lambda item: (item[1],), 3)
    assert ["".join(kind for (_, kind), _ in batch) for batch in batches] == [
        "aaa",
        "a",
        "bb",
        "a",
        "bbb",
        "bb",
    ]


@pytest.mark.parametrize("limit", [1, 10, 10**6])
def test_a_batch_may_be_larger_than_what_fits_ahead(limit):
    batches = list(batched(range(20), lambda item: ("a", item), 8, limit=limit))
    assert [[item for item, _ in batch] for batch in batches] == [
        [*range(8)],
        [*range(8, 16)],
        [*range(16, 20)],
    ]


@pytest.mark.parametrize("stage", ["load", "encode"])
def test_an_error_of_a_batch_comes_after_what_was_before_it(stage):
    def load(item):
        if stage == "load" and item == 5:
            raise ValueError("no item 5")
        return ("a",)

    def encode(batch):
        items = [item for item, _ in batch]
        if stage == "encode" and 5 in items:
            raise ValueError("no item 5")
        return items

    batches = batched(range(12), load, 2, encode)
    assert [next(batches), next(batches)] == [[0, 1], [2, 3]]
    if stage == "load":
        # the items of its batch that were loaded are answered, and therefore stored
        assert next(batches) == [4]
    with pytest.raises(ValueError, match="no item 5"):
        next(batches)


def test_batches_are_encoded_while_an_earlier_one_is():
    encoded = [threading.Event() for _ in range(4)]

    def encode(batch):
        number = batch[0][0] // 2
        encoded[number].set()
        return number != 1 or all(event.wait(FOREVER_S) for event in encoded)

    def load(item):
        RESERVE.get()(1)
        return ("a",)

    assert all(batched(range(8), load, 2, encode, weight=lambda _: 1))


def test_workers_compute_in_one_thread_each_and_the_consumer_as_before():
    before = torch.get_num_threads()
    in_workers = dict(prefetch(range(4), lambda _: torch.get_num_threads(), workers=2))
    assert set(in_workers.values()) == {1}
    in_new_thread = []
    thread = threading.Thread(target=lambda: in_new_thread.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert torch.get_num_threads() == before == in_new_thread[0]


def test_as_many_workers_as_the_process_has_cores(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 12)
    assert num_workers() == 12
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert num_workers() == 1
    monkeypatch.setattr(joblib, "cpu_count", lambda: 256)
    assert num_workers() == MOST_WORKERS
    assert num_workers("3") == 3
    for wrong in ("0", "many", -1, 1.5):
        with pytest.raises(ValueError, match=f"workers.*{wrong}"):
            num_workers(wrong)


# Stops before the generator is exhausted.
INTERRUPTED = """
from lmms_egoplan.harnesses.prefetch import prefetch
items = prefetch(range(10**6), str, workers=2)
next(items)
raise KeyboardInterrupt
"""


@pytest.mark.nightly
def test_an_interrupted_process_ends():
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], stderr=subprocess.DEVNULL, timeout=FOREVER_S
    )
    assert process.returncode == -signal.SIGINT


READING = [sys.executable, Path(__file__).parents[2] / "perf" / "reading_ahead.py"]
# Otherwise the allocator keeps some of the freed memory.
EXACT = os.environ | {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": "1",
    "LOCAL_WORLD_SIZE": "1",
}


@pytest.mark.nightly
# None of the larger items fits into 8 MiB.
@pytest.mark.parametrize(
    ("seed", "batch_size", "limit"), [(1, 0, 256), (2, 4, 256), (3, 0, 8), (1, 4, 8)]
)
def test_images_and_videos_of_random_sizes_stay_within_the_limit_and_one_item(
    seed, batch_size, limit
):
    options = ["--seed", str(seed), "--batch-size", str(batch_size), "--limit", str(limit)]
    figures = json.loads(
        subprocess.check_output([*READING, *options], env=EXACT, timeout=FOREVER_S)
    )
    assert figures["resident"] <= limit + 2 * figures["largest"]
    # an item counts twice while it is decoded
    assert 0 < figures["accounted"] <= limit + 3 * figures["largest"]
    if limit > 3 * figures["largest"]:
        assert figures["accounted"] <= limit
        assert figures["resident"] <= limit


@pytest.mark.nightly
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_each_process_of_a_machine_keeps_to_its_share_though_another_one_ends(sent):
    start = partial(
        subprocess.Popen,
        env=EXACT | {"LOCAL_WORLD_SIZE": "2"},
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        # a shell's background jobs ignore it
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    processes = [start([*READING, "--seed", str(seed)]) for seed in (1, 2)]
    assert processes[0].stderr.readline() == "reading\n"
    processes[0].send_signal(sent)
    assert processes[0].wait(FOREVER_S) != 0
    written, errors = processes[1].communicate(timeout=FOREVER_S)
    assert processes[1].returncode == 0, errors
    figures = json.loads(written)
    assert 0 < figures["accounted"] <= 128 + 3 * figures["largest"]
    assert figures["resident"] <= 128 + figures["largest"]
