import json
from io import BytesIO
from xml.etree import ElementTree

import pytest
from PIL import Image

from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.flows import LABELLED, load_flow
from lmms_egoplan.annotation.label_studio import write_label_studio
from media.files import write_numbered_video


def items(name, folder, tmp_path):
    """One item of a benchmark's flow, or two that differ in what they show."""
    content = BytesIO()
    Image.new("RGB", (8, 8)).save(content, "PNG")
    image = folder.keep(content.getvalue()).name
    video = tmp_path / "video.mp4"
    write_numbered_video(video, 12)
    labels = {"local_intent": "a", "global_intent": "b", "next_step_plan": "c"}
    shown = {
        "egothink": [{"image": image, "question": "What?", "reference": "A cup.", "answer": "<b>"}],
        "actplan": [
            {"description": "Make tea.", "images": [image], "plan": "grab(cup)"},
            {"description": "Make tea.", "images": [image, image], "plan": "grab(cup)\nopen(tap)"},
        ],
        "egoplan": [
            {
                "goal": "make tea",
                "choices": {letter: f"choice {letter}" for letter in "ABCD"},
                "video": str(video),
                "frames": frames,
                "fps": 10.0,
                "observation": 7,
            }
            for frames in ([], [1, 4, 7])
        ],
        "egointent": [
            {
                "video": str(video),
                "first": 2,
                "times": [0.2, 0.3, 0.4],
                "fps": 10.0,
                "end_sec": 0.5,
                "labels": labels,
                "titles": labels,
            }
        ],
    }[name]
    return [Item(f"item {place}", content, {"model": "secret-model"}) for place, content in enumerate(shown)]


@pytest.mark.parametrize("name", LABELLED)
def test_tasks_fit_their_configuration(name, tmp_path):
    folder = MediaFolder(tmp_path / "media")
    out = tmp_path / "out"
    write_label_studio(load_flow(name), items(name, folder, tmp_path), folder, out)
    view = ElementTree.parse(out / "config.xml").getroot()
    tasks = json.loads((out / "tasks.json").read_text())
    names = [tag.get("name") for tag in view.iter() if tag.get("name")]
    assert len(names) == len({*names})
    shown = {tag.get("name") for tag in view.iter() if tag.tag in ("Image", "Video", "Text")}
    # A value without $ would name what tasks have, too.
    assert all(tag.get("value").startswith("$") for tag in view.iter() if tag.get("name") in shown)
    controls = [tag for tag in view.iter() if tag.get("toName")]
    assert controls
    assert all(tag.get("toName") in shown for tag in controls)
    variables = {tag.get("value")[1:] for tag in view.iter() if (tag.get("value") or "").startswith("$")}
    for task in tasks:
        assert variables <= task["data"].keys()
        for value in task["data"].values():
            if isinstance(value, str) and value.startswith("/data/local-files/?d="):
                assert (out / value.removeprefix("/data/local-files/?d=")).is_file()
    assert "secret-model" not in (out / "tasks.json").read_text()


@pytest.mark.parametrize("name", LABELLED)
def test_label_studio_takes_configuration_and_tasks(name, tmp_path):
    interface = pytest.importorskip("label_studio_sdk.label_interface", reason="label-studio-sdk is not installed")
    folder, out = MediaFolder(tmp_path / "media"), tmp_path / "out"
    write_label_studio(load_flow(name), items(name, folder, tmp_path), folder, out)
    config = interface.LabelInterface((out / "config.xml").read_text())
    config.validate()
    tasks = json.loads((out / "tasks.json").read_text())
    needed = config.generate_sample_task().keys() - {"choice"}
    for task in tasks:
        config.validate_task(task)
        assert needed <= task["data"].keys()


def test_choices_of_a_question_are_in_its_task(tmp_path):
    folder = MediaFolder(tmp_path / "media")
    write_label_studio(load_flow("egoplan"), items("egoplan", folder, tmp_path), folder, tmp_path / "out")
    task = json.loads((tmp_path / "out" / "tasks.json").read_text())[0]
    choices = {choice["alias"]: choice["value"] for choice in task["data"]["choice"]}
    assert choices == {letter: f"choice {letter}" for letter in "ABCD"} | {"skip": "Skip"}
