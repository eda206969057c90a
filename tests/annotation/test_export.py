import csv
import json
from dataclasses import replace
from io import BytesIO
from xml.etree import ElementTree

import pytest
from PIL import Image
from typer.testing import CliRunner

from annotation.rating import Rating, new_store
from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.export import export, write_label_studio
from lmms_egoplan.annotation.flow import LABELLED, Item
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import LOCK, UNFINISHED
from lmms_egoplan.outputs import MARKER, output_folder
from markers import list_results
from media.files import write_numbered_video


class Other(Rating):
    name = "other"


@pytest.fixture
def store(tmp_path):
    store = new_store(tmp_path / "labels.sqlite", 2, 2, 2)
    yield store
    store.close()


def label(store, *people):
    for person in people:
        slot = store.assignments.next_slot(person)
        store.save(slot, "form", {"rating": "1"})


def names(out):
    return sorted(path.name for path in out.iterdir() if path.name not in (MARKER, LOCK))


COMMON = ["agreement.csv", "annotation.json", "labels.jsonl"]
PEOPLE = "agreement-people.csv"
PAIR = ("annotator-1", "annotator-2")


def test_export_replaces_the_previous_one(store, tmp_path):
    out = tmp_path / "out"
    label(store, "annotator-1", "annotator-2")
    with output_folder(out, "annotate export"):
        assert any(
            str(out / "ratings.json") in line for line in export(Rating(), store.labelled(), out)
        )
    assert names(out) == sorted([*COMMON, PEOPLE, "ratings.json"])
    rows = list(csv.DictReader((out / PEOPLE).read_text().splitlines()))
    assert [(row["first"], row["second"]) for row in rows] == [
        ("annotator-1", ""),
        ("annotator-2", ""),
        PAIR,
    ]
    expected = {
        "scale": "Rating",
        "items": "1",
        "percent": "100.0",
        "percent_low": "n/a",
        "kappa": "n/a",
    }
    assert all(row | expected == row for row in rows)
    (out / "notes.txt").write_text("one's own")
    slot = store.assignments.slot(store.own_labels("annotator-2", "", 0)[0].slot, "annotator-2")
    store.save(slot, "skip", None, skipped="too dark")
    with output_folder(out, "annotate export"):
        export(Rating(), store.labelled(), out)
    assert names(out) == sorted([*COMMON, "notes.txt", "skipped.jsonl"])
    skipped = {"item": "text/0", "stage": "rate", "person": "annotator-2", "reason": "too dark"}
    assert json.loads((out / "skipped.jsonl").read_text()) == skipped
    header, row = (out / "agreement.csv").read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["items_skipped"] == "1"


def test_failed_export_keeps_the_previous_one(store, tmp_path):
    out = tmp_path / "out"
    label(store, "annotator-1", "annotator-2")
    export(Rating(), store.labelled(), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    unlabelled = replace(store.labelled(), labels={})
    with pytest.raises(LmmsEgoplanError):
        export(Rating(), unlabelled, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_folder_with_other_files_is_refused(store, tmp_path):
    label(store, "annotator-1")
    export(Rating(), store.labelled(), tmp_path / "out")
    with pytest.raises(LmmsEgoplanError, match=r"out: .*rating.*other"):
        export(Other(), store.labelled(), tmp_path / "out")
    (tmp_path / "out" / "annotation.json").write_text(
        json.dumps({"benchmark": "rating", "files": ["../labels.sqlite"]})
    )
    with pytest.raises(LmmsEgoplanError, match="files"):
        export(Rating(), store.labelled(), tmp_path / "out")
    assert store.database.path.exists()


def test_interrupted_export_is_rejected_and_can_be_repeated(store, tmp_path):
    out = tmp_path / "out"
    label(store, "annotator-1")
    with output_folder(out, "annotate export"):
        export(Rating(), store.labelled(), out)
        (out / "ratings.json").write_text("{}")
    mark = json.loads((out / "annotation.json").read_text())
    (out / "annotation.json").write_text(
        json.dumps(mark | {"finished": False, "files": [*mark["files"], "ratings.json"]})
    )
    list_results(out, ["annotation.json", "ratings.json"])
    (out / f"{UNFINISHED}left").mkdir()
    result = CliRunner().invoke(app, ["report", str(out), "--out", str(tmp_path / "report")])
    assert result.exit_code == 1
    assert str(out) in result.output
    with output_folder(out, "annotate export"):
        export(Rating(), store.labelled(), out)
    assert names(out) == COMMON


def test_labels_of_failed_annotators_are_not_exported(tmp_path):
    store = new_store(tmp_path / "labels.sqlite", 3, 2, 1, qualification=1, seniors=1)
    people = ("annotator-1", "annotator-2")
    label(store, *people)
    for person in people:
        store.judge_qualification(person, "senior-1", passed=True)
    label(store, *people)
    store.judge_qualification("annotator-2", "senior-1", passed=False)
    export(Rating(), store.labelled(), tmp_path / "out")
    store.close()
    lines = [
        json.loads(line) for line in (tmp_path / "out" / "labels.jsonl").read_text().splitlines()
    ]
    assert {(line["person"], line["stage"]) for line in lines} == {
        ("annotator-1", "qualification"),
        ("annotator-1", "rate"),
    }
    assert {line["about"]["model"] for line in lines} == {"secret-model"}


def items(name, folder, tmp_path):
    """Return one item of a benchmark's flow, or two with different parts."""
    content = BytesIO()
    Image.new("RGB", (8, 8)).save(content, "PNG")
    image = folder.keep(content.getvalue()).name
    video = tmp_path / "video.mp4"
    write_numbered_video(video, 12)
    labels = {"local_intent": "a", "global_intent": "b", "next_step_plan": "c"}
    contents = {
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
    return [
        Item(f"item {index}", item, {"model": "secret-model"})
        for index, item in enumerate(contents)
    ]


@pytest.mark.parametrize("name", LABELLED)
def test_tasks_fit_their_configuration(name, tmp_path):
    folder = MediaFolder(tmp_path / "media")
    out = tmp_path / "out"
    write_label_studio(FLOWS[name], items(name, folder, tmp_path), folder, out)
    view = ElementTree.parse(out / "config.xml").getroot()
    tasks = json.loads((out / "tasks.json").read_text())
    names = [tag.get("name") for tag in view.iter() if tag.get("name")]
    assert len(names) == len({*names})
    media = {tag.get("name") for tag in view.iter() if tag.tag in ("Image", "Video", "Text")}
    # A value without $ would be a literal text.
    assert all(tag.get("value").startswith("$") for tag in view.iter() if tag.get("name") in media)
    controls = [tag for tag in view.iter() if tag.get("toName")]
    assert controls
    assert all(tag.get("toName") in media for tag in controls)
    variables = {
        tag.get("value")[1:] for tag in view.iter() if (tag.get("value") or "").startswith("$")
    }
    for task in tasks:
        assert variables <= task["data"].keys()
        for value in task["data"].values():
            if isinstance(value, str) and value.startswith("/data/local-files/?d="):
                assert (out.parent / value.removeprefix("/data/local-files/?d=")).is_file()
    assert "secret-model" not in (out / "tasks.json").read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("name", LABELLED)
def test_label_studio_accepts_configuration_and_tasks(name, tmp_path):
    interface = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="label-studio-sdk is not installed"
    )
    folder, out = MediaFolder(tmp_path / "media"), tmp_path / "out"
    write_label_studio(FLOWS[name], items(name, folder, tmp_path), folder, out)
    config = interface.LabelInterface((out / "config.xml").read_text())
    config.validate()
    tasks = json.loads((out / "tasks.json").read_text())
    needed = config.generate_sample_task().keys() - {"choice"}
    for task in tasks:
        config.validate_task(task)
        assert needed <= task["data"].keys()


def test_task_contains_the_choices_of_its_question(tmp_path):
    folder = MediaFolder(tmp_path / "media")
    write_label_studio(
        FLOWS["egoplan"], items("egoplan", folder, tmp_path), folder, tmp_path / "out"
    )
    task = json.loads((tmp_path / "out" / "tasks.json").read_text())[0]
    choices = {choice["alias"]: choice["value"] for choice in task["data"]["choice"]}
    assert choices == {letter: f"choice {letter}" for letter in "ABCD"} | {"skip": "Skip"}


def test_keys_are_those_of_the_page(tmp_path):
    folder = MediaFolder(tmp_path / "media")
    keys = {}
    for name in LABELLED:
        out = tmp_path / name
        write_label_studio(FLOWS[name], items(name, folder, tmp_path), folder, out)
        view = ElementTree.parse(out / "config.xml").getroot()
        for tag in view.iter("Choices"):
            keys[name, tag.get("name")] = {
                choice.get("alias"): choice.get("hotkey") for choice in tag
            }
        task = json.loads((out / "tasks.json").read_text())[0]
        if name == "egoplan":
            keys[name, "choice"] = {
                choice["alias"]: choice["hotkey"] for choice in task["data"]["choice"]
            }
    assert keys["egothink", "rating"] == {"0": "0", "0.5": "5", "1": "1"}
    assert [*keys["egoplan", "choice"].values()] == ["1", "2", "3", "4", "5"]
    assert keys["egointent", "supported_local_intent"] == {"yes": "1", "no": "2"}
    assert keys["egointent", "supported_global_intent"] == {"yes": "q", "no": "w"}
    for name in LABELLED:
        all_keys = [
            key for (flow, _), field in keys.items() if flow == name for key in field.values()
        ]
        assert None not in all_keys
        assert len(all_keys) == len({*all_keys})


def test_time_in_a_task_is_relative_to_the_clip(tmp_path):
    folder = MediaFolder(tmp_path / "media")
    steps = items("egointent", folder, tmp_path)
    write_label_studio(FLOWS["egointent"], steps, folder, tmp_path / "out")
    (task,) = json.loads((tmp_path / "out" / "tasks.json").read_text())
    assert task["data"]["end_sec"] == 0.3
    assert task["data"]["end_sec_start"] == 0.2
    text = task["data"]["end_sec_clip"]
    assert "starts at 0.200 s of the video" in text
    assert "from 0.100 to 0.300" in text
    assert "at 0.300 s now" in text
