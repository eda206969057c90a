"""Export preference data with the images, question and actions of training, in the formats of other
trainers.
"""

import json
from pathlib import Path

import pytest
from datasets import Image, Sequence, load_dataset

from media.files import read_number, write_epic_folder

from .small import export, records, write_set


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("set"))


def rows(out):
    return [json.loads(line) for line in (out / "preferences.jsonl").read_text().splitlines()]


def test_trl_gets_images_prompt_chosen_and_rejected(folder):
    result, out = export(folder, "trl")
    assert result.exit_code == 0, result.output
    assert len(rows(out)) == len(records())
    for row, record in zip(rows(out), records(), strict=True):
        (turn,) = row["prompt"]
        assert [item["type"] for item in turn["content"]] == ["image"] * len(row["images"]) + [
            "text"
        ]
        assert len(row["images"]) == 8 * len(record["task_progress_metadata"][-4:]) + 1
        assert row["chosen"][0]["content"][0]["text"] == record["answer"]
        assert row["rejected"][0]["content"][0]["text"] in record["negative_answers"]


def test_the_export_is_loaded_as_the_docs_describe(folder, monkeypatch):
    _, out = export(folder, "trl")
    monkeypatch.chdir(out)
    data = load_dataset(
        "json", data_files="preferences.jsonl", split="train", cache_dir=str(folder / "cache")
    )
    data = data.cast_column("images", Sequence(Image()))
    assert read_number(data[3]["images"][-1]) == records()[3]["current_observation_frame"]


def test_ms_swift_gets_absolute_paths_and_a_rejected_response(folder):
    _, out = export(folder, "ms-swift")
    for row, record in zip(rows(out), records(), strict=True):
        question, answer = row["messages"]
        assert question["content"] == "<image>" * len(row["images"]) + record["question"]
        assert answer == {"role": "assistant", "content": record["answer"]}
        assert row["rejected_response"] in record["negative_answers"]
        assert all(Path(image).is_absolute() and Path(image).is_file() for image in row["images"])


def test_folder_of_another_export_is_refused(folder, tmp_path):
    write_set(tmp_path)
    assert export(tmp_path, "trl")[0].exit_code == 0
    before = sorted(
        (path.name, path.stat().st_mtime_ns) for path in (tmp_path / "trl" / "images").iterdir()
    )
    assert export(tmp_path, "trl")[0].exit_code == 0
    assert (
        sorted(
            (path.name, path.stat().st_mtime_ns) for path in (tmp_path / "trl" / "images").iterdir()
        )
        == before
    )
    assert_refused(tmp_path, "--seed", "7")
    annotations = tmp_path / "EgoPlan_IT.json"
    content = annotations.read_text()
    annotations.write_text(
        content.replace('"current_observation_frame": 28', '"current_observation_frame": 30')
    )
    assert annotations.read_text() != content
    assert_refused(tmp_path)
    annotations.write_text(content)
    assert export(tmp_path, "trl")[0].exit_code == 0
    write_epic_folder(tmp_path / "epic/P01/rgb_frames/P01_01", 2, 40)
    assert_refused(tmp_path)


def assert_refused(folder, *options):
    result, _ = export(folder, "trl", *options)
    assert result.exit_code == 1
    assert "--out" in result.output
