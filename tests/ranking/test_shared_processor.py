"""A question's images are encoded once for all orders where the processor allows it, and no result
changes.
"""

from functools import partial

import numpy
import pytest
from PIL import Image
from torch.testing import assert_close

from lmms_egoplan.ranking.shared_processor import with_shared_parts
from lmms_egoplan.sharing import encode_together
from zoo import FAMILIES, build

ORDERS = [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (3, 3, 3, 3), (1, 1, 2, 3)]
PARTS = [
    *((name, "image_processor") for name in FAMILIES),
    *((name, "video_processor") for name, family in FAMILIES.items() if family.takes_video),
]


def frames(seed, count=4):
    pixels = numpy.random.default_rng(seed).integers(0, 256, (count, 40, 56, 3), dtype=numpy.uint8)
    return [Image.fromarray(frame) for frame in pixels]


def encoded(part, images):
    if type(part).__name__.endswith("VideoProcessor"):
        return dict(part(videos=[images], return_tensors="pt", do_sample_frames=False))
    return dict(part(images=images, return_tensors="pt"))


def encoded_in_all_orders(part, images, orders=(*ORDERS, ORDERS[0])):
    conditions = [(order, [images[position] for position in order]) for order in orders]
    results = encode_together(
        conditions, lambda item: (item, "question"), lambda item, _: encoded(part, item[1])
    )
    return [(order, result) for result, equal in results for order, _ in equal]


@pytest.fixture
def calls(monkeypatch):
    """Return a function that counts the calls of a processor from now on."""

    def counted(part):
        counted_calls, call = [], type(part).__call__
        monkeypatch.setattr(
            type(part),
            "__call__",
            lambda self, *args, **kwargs: counted_calls.append(1) or call(self, *args, **kwargs),
        )
        return counted_calls

    return counted


@pytest.mark.parametrize(("name", "kind"), PARTS)
def test_results_equal_those_of_the_processor(name, kind):
    processor = build(name)[1]
    shared = getattr(with_shared_parts(processor), kind)
    for seed in range(3):
        images = frames(seed)
        results = encoded_in_all_orders(shared, images)
        assert len(results) == len(ORDERS) + 1
        for order, result in results:
            expected = encoded(getattr(processor, kind), [images[position] for position in order])
            assert result.keys() == expected.keys()
            assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "name", ["llava", "internvl", "idefics3", "gemma3", "mllama", "qwen2_5_vl"]
)
def test_images_are_encoded_once_after_the_first_question(name, calls):
    processor = build(name)[1]
    counted_calls = calls(processor.image_processor)
    shared = with_shared_parts(processor).image_processor
    counts = []
    for seed in range(3):
        encoded_in_all_orders(shared, frames(seed))
        counts.append(len(counted_calls))
    # First, each number of different images is verified.
    assert counts == [4, 5, 6]


def test_a_processor_that_merges_frames_encodes_each_order(calls):
    processor = build("qwen2_5_vl")[1]
    counted_calls = calls(processor.video_processor)
    shared = with_shared_parts(processor).video_processor
    for seed in range(2):
        encoded_in_all_orders(shared, frames(seed))
    assert len(counted_calls) == 2 * len(ORDERS)


def test_an_order_that_keeps_merged_frames_together_verifies_no_other_order(calls):
    processor = build("qwen2_5_vl")[1]
    counted_calls = calls(processor.video_processor)
    shared = with_shared_parts(processor).video_processor
    orders = [range(6), (0, 1, 4, 5, 2, 3)], [range(6), (0, 1, 3, 2, 4, 5)]
    for seed, (images, both) in enumerate(
        zip(map(partial(frames, count=6), range(2)), orders, strict=True), 1
    ):
        encoded_in_all_orders(shared, images, both)
        assert len(counted_calls) == 2 * seed
