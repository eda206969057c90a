"""Requests of the tasks, and their data."""

import json
import os
import re
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from benchmarks.egointent.source import raw_record, write_annotations, write_videos
from harnesses.lm_eval.prepared_sets import (
    EGOTHINK,
    TEXT_ONLY,
    WITH_IMAGES,
    build,
    images_of,
    load,
)
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egointent.judge_protocol import PAPER, RELEASE, judge_prompt
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egothink.prompts import FAMILIES
from lmms_egoplan.benchmarks.subset import SUBSET
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.task import Answered
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.storage import DataMissingError
from media.files import read_number, read_numbers

BACKENDS = [(family.backends or [family.name])[0] for family in FAMILIES]


def of_each_kind(names):
    """Return the names without tasks that differ from another one only in the dimension of
    EgoThink.
    """
    return [
        name
        for name in names
        if not name.startswith("egothink_") or "existence" in name or "assistance" in name
    ]


@pytest.fixture(scope="module")
def requests_of(data):
    """Return a function from a task's name to its requests."""
    return cache(lambda name: build(name).instances)


def test_a_prompt_has_a_placeholder_for_each_image(requests_of):
    wrong = []
    for name in of_each_kind(WITH_IMAGES):
        for number, instance in enumerate(requests_of(name)):
            images = list(images_of(instance))
            # A preset's system prompt precedes the images.
            text = instance.args[0].partition("<image>" * len(images))[0]
            begins = text == "" or (name.startswith("egothink_") and "__" in name)
            if not (images and begins and instance.args[0].count("<image>") == len(images)):
                wrong.append(
                    f"{name}, request {number}: {len(images)} images, prompt {instance.args[0]!r}"
                )
            if modes := {image.mode for image in images} - {"RGB"}:
                wrong.append(f"{name}, request {number}: {modes}")
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "egointent_other_video",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ("egointent", "egointent_without_boundary")
        ),
    ],
)
def test_a_compact_run_asks_questions_of_the_full_one_with_the_same_partners(
    tmp_path, monkeypatch, name
):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    ids = [f"video_{number}" for number in range(6)]
    scenarios = ("Make Tea", "Cut Trees", "Make Tea")
    steps = [
        raw_record(
            2 * n + k,
            video_id=id_,
            start_sec=k,
            end_sec=k + 0.4,
            scenario=scenarios[n % 3],
            goal=None,
            event=None,
        )
        for n, id_ in enumerate(ids)
        for k in (0, 1)
    ]
    videos = write_videos(tmp_path / "videos", ids)
    drawn = []
    for time in (1e9, 2e9):  # the fingerprint of the data depends on the times of the files
        for path in videos.iterdir():
            os.utime(path, (time, time))
        prepare_egointent(write_annotations(tmp_path / "steps.jsonl", steps), videos)
        whole = {row["step_id"]: row for row in load(name).test_docs()}
        with monkeypatch.context() as patch:
            patch.setenv(SUBSET, "4")
            asked = list(load(name).test_docs())
        assert 0 < len(asked) < len(whole)
        for row in asked:
            assert row.pop("subset")["asked"] == 4
            assert row == whole[row["step_id"]]
        drawn.append([row["step_id"] for row in asked])
        if name == "egointent_other_video":
            assert not {row["partner"]["step_id"] for row in asked} <= {*drawn[0]}
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(("name", "is_release"), [("egointent", True), ("egointent_v1", False)])
def test_the_judge_gets_the_definitions_of_the_task(data, monkeypatch, name, is_release):
    task = build(name)
    doc = task.instances[0].doc
    with JudgeServer(lambda *_: Reply("Fine.\n[[40]]")) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", f"judge of {name}")
        (text,) = task.score([Answered(doc, '{"next_step": "turn the screw"}')])
    assert json.loads(text)["ratings"] == {
        "local_intent": 0.0,
        "global_intent": 0.0,
        "next_step_plan": 40.0,
    }
    fields = ({"next_step_plan": doc["next_step_plan"]}, {"next_step_plan": "turn the screw"})
    assert server.prompts == [judge_prompt(*fields, RELEASE if is_release else PAPER)]


def test_a_text_only_task_has_no_images(requests_of):
    prompts = [
        (name, *instance.args) for name in of_each_kind(TEXT_ONLY) for instance in requests_of(name)
    ]
    assert [prompt for prompt in prompts if len(prompt) != 3 or "<image>" in prompt[1]] == []


def test_documents_are_text_and_numbers(requests_of):
    names = of_each_kind([*WITH_IMAGES, *TEXT_ONLY])
    docs = [(name, instance.doc) for name in names for instance in requests_of(name)]
    assert len({name for name, _ in docs}) == len(names)
    assert [(name, doc) for name, doc in docs if json.loads(json.dumps(doc)) != doc] == []
    assert [(name, doc) for name, doc in docs if {"image", "images"} & {*doc}] == []


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("egoplan__lmms-eval-0.7.3", {"preset": "seed-bench-r1"}),
        ("egoplan__seed-bench-r1", {"max_frames": 256}),
        ("egoplan_bench2__flageval", {"preset": "mimo"}),
        ("egoplan_bench2__flageval", {"num_frames": 4}),
        ("egoplan_bench2__flageval", {"size": [10, 10]}),
        ("egoplan_bench2__mimo", {"fps": 2}),
        ("egoplan_bench2__physbrain-evalkit", {"observation": "last frame"}),
    ],
)
def test_metadata_cannot_change_a_preset(data, name, setting):
    ((key, value),) = setting.items()
    with pytest.raises(LmmsEgoplanError, match=f"{name}.*--metadata {key}={re.escape(str(value))}"):
        load(name, **setting)
    load(name, prompts="of another task")


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("egoplan_val", "num_frames"),
        ("egoplan_val_generate", "num_frames"),
        ("egointent", "max_frames"),
    ],
)
def test_metadata_set_the_number_of_images(requests_of, name, setting):
    usual = [list(images_of(instance)) for instance in requests_of(name)]
    fewer = build(name, **{setting: 2}).instances
    assert max(len(images) for images in usual) > 2
    for images, instance in zip(usual, fewer, strict=True):
        expected = min(2, len(images))
        selection = list(images_of(instance))
        assert len(selection) == instance.args[0].count("<image>") == expected
        assert read_numbers([selection[0], selection[-1]]) == read_numbers([images[0], images[-1]])
        assert f" {2} frames" in images_of(instance)


def test_the_observation_is_the_last_image(data):
    for instance in build("egoplan_val", num_frames=3).instances:
        *_, last = images_of(instance)
        assert read_number(last) == instance.doc["current_observation_frame"]


NO_COUNTS = [
    ("egointent", "max_frames", 0),
    ("egointent", "max_frames", "many"),
    ("egointent", "max_frames", True),
    ("egoplan_val", "num_frames", 0),
    *(
        pytest.param(name, "num_frames", count)
        for name in ("egoplan_val", "egoplan_val_generate")
        for count in ("many", 2.5, True)
    ),
]


@pytest.mark.parametrize(("name", "setting", "count"), NO_COUNTS)
def test_an_invalid_number_of_images_is_named(data, name, setting, count):
    with pytest.raises(ValueError, match=f"--metadata {setting}={count}: "):
        build(name, **{setting: count})


@pytest.mark.parametrize(
    "name", ["egoplan_val", "egoplan_val_narrated", "egothink_activity_activity", "egointent"]
)
def test_missing_data_raise_with_the_command(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    with pytest.raises(
        DataMissingError, match=rf"{tmp_path}.* lmms-egoplan data prepare {name[:6]}"
    ):
        load(name)


@pytest.mark.parametrize("name", ["egothink_object_existence", "egothink_planning_assistance"])
def test_an_unknown_prompt_family_raises_with_the_choices(data, name):
    with pytest.raises(
        LmmsEgoplanError, match=rf"^{name}: --metadata prompts=gpt5\b.*\bdefault\b"
    ) as raised:
        load(name, prompts="gpt5")
    assert all(backend in str(raised.value) for backend in BACKENDS)


@pytest.fixture(scope="module")
def lmms_eval():
    """Return the functions of EgoThink's tasks in lmms-eval."""
    spec = spec_from_file_location("egothink_utils", LMMS_EVAL_TASKS / "egothink" / "utils.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["egothink_object_existence", "egothink_planning_assistance"])
def test_the_prompts_of_egothink_are_those_in_lmms_eval(data, lmms_eval, name):
    blocks = lmms_eval.PLANNING_PROMPTS if "planning" in name else lmms_eval.GENERAL_PROMPTS
    different = []
    for backend in BACKENDS:
        requests = build(name, prompts=backend).instances
        assert requests
        for instance in requests:
            text = instance.args[0]
            assert text.count("<image>") == 1
            assert instance.doc["question"] in text
            expected = lmms_eval.doc_to_text(instance.doc, blocks[backend]).replace("<image>", "")
            if text.replace("<image>", "") != expected:
                different.append((backend, text, expected))
    assert different == []


@pytest.mark.parametrize("kind", ["GENERAL_PROMPTS", "PLANNING_PROMPTS"])
def test_prompts_of_physbrain_are_a_block_for_all_backends_of_lmms_eval(lmms_eval, kind):
    (block,) = getattr(lmms_eval, f"PHYSBRAIN_{kind}").items()
    assert block == ("default", getattr(lmms_eval, kind)["physbrain"])
    dimension = "assistance" if kind == "PLANNING_PROMPTS" else "existence"
    doc = {"id": f"{dimension}/1", "question": "Where am I?"}
    text = lmms_eval.doc_to_text(doc, block[1])
    assert text.startswith("Imagine you are the camera wearer (I) who recorded the video. ")
    assert ("without safety or privacy concerns. " in text) == (kind == "PLANNING_PROMPTS")
    assert text.endswith("as short as possible. Question: Where am I? Short answer:")


def test_each_dimension_asks_its_own_questions(data):
    for name, dimension in EGOTHINK.items():
        questions = [instance.doc["question"].strip() for instance in build(name).instances]
        assert questions == [f"What is thing {number} of {dimension.name}?" for number in (1, 2)]
