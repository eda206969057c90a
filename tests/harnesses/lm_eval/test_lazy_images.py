"""Images of requests are in memory only while they are used."""

import copy
import gc
import json
import shutil
import subprocess
import sys
import weakref
from functools import partial
from hashlib import sha256
from pathlib import Path

import dill
import pytest
from lm_eval.api.model import hash_args
from PIL import Image

from benchmarks.actplan.release import instance_ids
from benchmarks.egothink.source import shade, write_source
from harnesses.lm_eval.prepared_sets import build, images_of
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.splits import ACTPLAN, EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages, stored_images
from lmms_egoplan.media.frames import FrameError
from media.files import number_image, read_numbers
from patience import FOREVER_S
from runs.small_set import prepare_small_set

OPEN_FILES = Path("/proc/self/fd")

# Prints the description and the digests of each request's images.
DESCRIBE = """
import dill, hashlib, sys
from pathlib import Path
for images in dill.loads(Path(sys.argv[1]).read_bytes()):
    print(images.lower(), *(hashlib.sha256(image.tobytes()).hexdigest() for image in images))
"""


def fingerprint():
    return ACTPLAN.fingerprint("test")


def numbers(start, count):
    return [number_image(number) for number in range(start, start + count)]


@pytest.fixture
def images():
    """Images that show 5, 6 and 7."""
    return LazyImages("five to seven", partial(numbers, 5, 3))


def test_images_are_a_text_for_json_and_hashing(images):
    assert json.loads(json.dumps({"visual": images})) == {"visual": "five to seven"}
    same = LazyImages("five to seven", partial(numbers, 0, 1))
    other = LazyImages("six to eight", partial(numbers, 5, 3))
    keys = [
        hash_args("loglikelihood", ("a", " b", {"visual": visual}))
        for visual in (images, same, other)
    ]
    assert keys[0] == keys[1] != keys[2]


def test_iteration_and_slices_read_images_each_time(images):
    assert read_numbers(list(images)) == [5, 6, 7]
    assert read_numbers(images[:3]) == [5, 6, 7]
    with pytest.raises(ValueError, match=r"five to seven: .*2 of 3.* max_images=3"):
        images[:2]
    assert read_numbers([images[-1]]) == [7]
    first, second = list(images), list(images)
    assert not {id(image) for image in first} & {id(image) for image in second}


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda images: dill.loads(dill.dumps(images))]
)
def test_a_copy_shows_the_same(images, copied):
    (other,) = copied([images])
    assert isinstance(other, LazyImages)
    assert str(other) == "five to seven"
    assert read_numbers(list(other)) == [5, 6, 7]


@pytest.mark.parametrize(
    "task",
    [
        "egoplan_val",
        "egothink_object_existence",
        "egointent",
        pytest.param("actplan", marks=pytest.mark.nightly),  # loads the sentence encoder
    ],
)
def test_another_version_of_the_task_gets_no_earlier_response(data, task):
    """Compare lm-eval's cache keys."""
    versions = ({}, {"version": 99.0}, {})
    first, other, again = (
        hash_args("ask", build(task, **version).instances[0].args) for version in versions
    )
    assert first == again != other


def test_requests_are_read_in_another_process(data, tmp_path):
    """The images are the same there, as with lm-eval's request cache."""
    tasks = ["egoplan_val", "egothink_planning_navigation", "egointent"]
    requested = [images_of(instance) for task in tasks for instance in build(task).instances]
    requested.append(
        LazyImages("views", partial(stored_images, ACTPLAN, "test", fingerprint(), 3, "images"))
    )
    (tmp_path / "requests").write_bytes(dill.dumps(requested))
    command = [sys.executable, "-c", DESCRIBE, str(tmp_path / "requests")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=FOREVER_S)
    digests = [[sha256(image.tobytes()).hexdigest() for image in images] for images in requested]
    expected = [
        " ".join([images.lower(), *hashes])
        for images, hashes in zip(requested, digests, strict=True)
    ]
    assert done.stdout.splitlines() == expected
    assert len(expected) == 3 * 4 + 2 + 6 + 1


def test_building_requests_reads_no_image(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_small_set(tmp_path, 2)
    shutil.rmtree(tmp_path / "epic")
    shutil.rmtree(tmp_path / "ego4d")
    task = build("egoplan_val")
    assert len(task.instances) == 8
    for instance in task.instances:
        with pytest.raises(FrameError):
            list(images_of(instance))


def test_images_of_the_right_row_in_rgb(data):
    released = [str(instance) for instance in instance_ids(24)]
    for row, name in enumerate(ACTPLAN.load("test")["id"]):
        images = stored_images(ACTPLAN, "test", fingerprint(), row, "images")
        number = released.index(name)
        assert read_numbers(images) == list(range(5 * number, 5 * number + 2 + number % 4))
        assert {image.mode for image in images} == {"RGB"}
    (image,) = stored_images(EGOTHINK, "counting", EGOTHINK.fingerprint("counting"), 1, "image")
    assert image.getpixel((3, 3))[0] == pytest.approx(shade(6, 1), abs=3)


def test_neither_images_nor_open_files_are_kept(data):
    requested = [
        images_of(instance)
        for task in ("egoplan_val", "egointent")
        for instance in build(task).instances
    ]
    seen, files = [], []
    for _ in range(4):
        for images in requested:
            seen += [weakref.ref(image) for image in images]
        files.append(len(list(OPEN_FILES.iterdir())))
    gc.collect()
    assert len(seen) > 400
    assert not [image for image in seen if image() is not None]
    assert files[-1] == files[0]


def test_memory_stays_flat_over_large_stored_images(tmp_path, monkeypatch):
    """The images take 12 MB each when decoded, 300 MB in total."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    source = write_source(tmp_path / "source", 1)
    for path in source.rglob("*.jpg"):
        Image.new("L", (2000, 2000), 100).save(path)
    prepare_egothink(source)
    (instance,) = build("egothink_object_existence").instances
    assert [(image.size, image.mode) for image in images_of(instance)] == [((2000, 2000), "RGB")]
    files, before = len(list(OPEN_FILES.iterdir())), resident_megabytes()
    for _ in range(25):
        list(images_of(instance))
    assert resident_megabytes() < before + 100
    assert len(list(OPEN_FILES.iterdir())) == files


def resident_megabytes():
    (line,) = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) / 1024


def test_data_prepared_again_raise(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_egothink(write_source(tmp_path / "old", 4))
    requested = [images_of(instance) for instance in build("egothink_reasoning_counting").instances]
    prepare_egothink(write_source(tmp_path / "new", 5))
    with pytest.raises(LmmsEgoplanError, match="egothink/counting"):
        list(requested[0])
    again = [images_of(instance) for instance in build("egothink_reasoning_counting").instances]
    assert [len(list(images)) for images in again] == [1] * 5
