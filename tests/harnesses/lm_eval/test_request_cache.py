"""Requests from lm-eval's request cache equal newly built ones, or are rebuilt."""

import json

import pytest
from lm_eval.caching import cache

from benchmarks.egointent.source import raw_records, write_annotations, write_videos
from benchmarks.egothink.source import image_bytes, write_source
from harnesses.lm_eval.prepared_sets import EGOTHINK, load
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages
from media.files import read_number
from runs.small_set import prepare_small_set

COUNTING = "egothink_reasoning_counting"
CHAT = {"apply_chat_template": True, "tokenizer_name": "same"}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Return the folder of three sets. Tests only read it."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_small_set(folder, 4)
        prepare_egothink(write_source(folder / "source"))
        prepare_egointent(
            write_annotations(folder / "steps.jsonl", raw_records()),
            write_videos(folder / "videos"),
        )
    return folder


@pytest.fixture(autouse=True)
def folder(sets, tmp_path, monkeypatch):
    """Return a folder with an empty cache. The data are elsewhere."""
    monkeypatch.setattr(cache, "PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(sets))
    return tmp_path


def build(name="egoplan_val", cache_requests=True, metadata=None, config=None, **arguments):
    """Return the requests of a run with ``--cache_requests``.

    `config` changes the task, like ``--gen_kwargs``.
    """
    task = load(name, **(metadata or {}))
    for key, value in (config or {}).items():
        task.set_config(key, value, update=isinstance(value, dict))
    task.build_all_requests(cache_requests=cache_requests, **arguments)
    return task.instances


def contents(instances):
    """Return everything that determines a model's input and the destination of its answer."""
    return [
        (
            item.request_type,
            item.doc,
            item.task_name,
            item.doc_id,
            item.idx,
            *map(json.dumps, item.args),
        )
        for item in instances
    ]


def uncached(*arguments, **keywords):
    return contents(build(*arguments, cache_requests=False, **keywords))


def of_cache(warned):
    return [message.strip() for message in warned if "cache" in message]


def written(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "cache").iterdir()}


def test_an_equal_run_reads_requests_from_the_cache(folder, warned):
    """At most one document's requests are built, for comparison."""
    built = []

    def text(doc):
        built.append(doc["sample_id"])
        return "<image>" * 8 + doc["question"]

    config = {"doc_to_text": text}
    first = contents(build(config=config))
    assert set(built) == {100, 101, 102, 103}
    files = written(folder)
    built.clear()
    again = build(config=config)
    assert len(built) <= 1
    assert contents(again) == first == uncached()
    assert len(files) == 1
    assert written(folder) == files
    assert of_cache(warned) == []
    images = [instance.args[2]["visual"] for instance in again]
    assert all(isinstance(image, LazyImages) for image in images)
    assert [read_number(list(item)[-1]) for item in images[::4]] == [39, 38, 37, 36]
    # the object identifies the requests of one question
    assert len({id(item) for item in images}) == 4


@pytest.mark.parametrize("limit", [1, 3, None])
def test_a_limit_takes_the_first_of_the_cache(folder, warned, limit):
    build(limit=2)
    files = written(folder)
    assert contents(build(limit=limit)) == uncached(limit=limit)
    assert written(folder) == files
    assert of_cache(warned) == []


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_share_a_limit(rank):
    """lm-eval would give each rank that many documents from the cache."""
    share = {"rank": rank, "world_size": 2, "limit": 2}
    for _ in range(2):
        assert {instance.doc_id for instance in build(**share)} == {rank}
        assert contents(build(**share)) == uncached(**share)


def shout(messages, **_):
    return messages[-1]["content"].upper()


def whisper(messages, **_):
    return messages[-1]["content"].lower()


CHANGES = {
    "num_frames": ("egoplan_val", {}, {"metadata": {"num_frames": 3}}),
    "max_frames": ("egointent", {}, {"metadata": {"max_frames": 1}}),
    "prompts": (COUNTING, {}, {"metadata": {"prompts": "llava"}}),
    "samples": ("egoplan_val", {}, {"samples": [1, 3]}),
    "other samples": ("egoplan_val", {"samples": [1, 2]}, {"samples": [1, 3]}),
}
OTHER_CHANGES = {
    "gen_kwargs": (COUNTING, {}, {"config": {"generation_kwargs": {"max_gen_toks": 5}}}),
    "words": ("egoplan_val", {}, {"config": {"doc_to_text": "{{question}} Answer."}}),
    "choices": ("egoplan_val", {}, {"config": {"target_delimiter": ""}}),
    "chat template": (
        "egoplan_val_blind",
        CHAT | {"chat_template": shout},
        CHAT | {"chat_template": whisper},
    ),
}
CASES = [pytest.param(*case, id=name) for name, case in CHANGES.items()]
CASES += [pytest.param(*case, id=name) for name, case in OTHER_CHANGES.items()]


@pytest.mark.parametrize(("name", "usual", "change"), CASES)
def test_a_different_run_rebuilds_and_stores_requests(folder, warned, name, usual, change):
    first = contents(build(name, **usual))
    assert contents(build(name, **change)) == uncached(name, **change) != first
    (warning,) = of_cache(warned)
    assert name in warning
    files = written(folder)
    assert contents(build(name, **change)) == uncached(name, **change)
    assert len(of_cache(warned)) == 1
    assert written(folder) == files
    assert contents(build(name, **usual)) == first


def test_data_prepared_again_rebuild_requests(folder, warned, monkeypatch):
    """The questions are the same, but one image differs."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder))
    source = write_source(folder / "source")
    prepare_egothink(source)
    before = contents(build(COUNTING))
    for path in (source / EGOTHINK[COUNTING].folder / "images").iterdir():
        path.write_bytes(image_bytes(123))
    prepare_egothink(source)
    requests = build(COUNTING)
    assert contents(requests) == uncached(COUNTING) != before
    assert len(of_cache(warned)) == 1
    assert [
        image.getpixel((3, 3))[0] for request in requests for image in request.args[2]["visual"]
    ] == [123, 123]
    assert contents(build(COUNTING)) == contents(requests)
    assert len(of_cache(warned)) == 1


def test_equal_data_in_another_folder_use_the_cache(folder, warned, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder))
    prepare_egothink(write_source(folder / "source"))
    first = contents(build(COUNTING))
    (folder / "egothink").rename(folder / "moved")
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "elsewhere"))
    (folder / "elsewhere").mkdir()
    (folder / "moved").rename(folder / "elsewhere" / "egothink")
    requests = build(COUNTING)
    assert contents(requests) == first
    assert of_cache(warned) == []
    assert all(len(list(request.args[2]["visual"])) == 1 for request in requests)
