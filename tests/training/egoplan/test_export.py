"""Export EgoPlan-IT with the images, question and actions of training, in the formats of other
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


def exported(folder, form):
    """Export the set, and return the folder with rows of both files and the record of each."""
    result, out = export(folder, form)
    assert result.exit_code == 0, result.output
    sft, preferences = (
        [json.loads(line) for line in (out / name).read_text().splitlines()]
        for name in ("sft.jsonl", "preferences.jsonl")
    )
    return out, list(zip(sft, preferences, records(), strict=True))


def test_trl_gets_prompts_with_answers(folder):
    _, rows = exported(folder, "trl")
    for sft, pair, record in rows:
        images = [f"images/{record['sample_id']}_{number:02}.jpg" for number in range(100)]
        num_images = 8 * len(record["task_progress_metadata"][-4:]) + 1
        content = [{"type": "image"}] * num_images
        content += [{"type": "text", "text": record["question"]}]
        prompt = {"images": images[:num_images], "prompt": [{"role": "user", "content": content}]}
        answer = [{"role": "assistant", "content": [{"type": "text", "text": record["answer"]}]}]
        assert sft == prompt | {"completion": answer}
        ((rejected,),) = [turn.pop("content") for turn in pair["rejected"]]
        assert rejected["text"] in record["negative_answers"]
        assert pair == prompt | {"chosen": answer, "rejected": [{"role": "assistant"}]}


@pytest.mark.parametrize("name", ["sft.jsonl", "preferences.jsonl"])
def test_the_export_is_loaded_as_the_docs_describe(folder, name, monkeypatch):
    out, _ = exported(folder, "trl")
    monkeypatch.chdir(out)
    data = load_dataset("json", data_files=name, split="train", cache_dir=str(folder / "cache"))
    data = data.cast_column("images", Sequence(Image()))
    assert read_number(data[3]["images"][-1]) == records()[3]["current_observation_frame"]


def test_ms_swift_gets_absolute_paths_and_a_rejected_response(folder):
    _, rows = exported(folder, "ms-swift")
    for sft, pair, record in rows:
        question, answer = sft["messages"]
        assert question["content"] == "<image>" * len(sft["images"]) + record["question"]
        assert answer == {"role": "assistant", "content": record["answer"]}
        assert pair.pop("rejected_response") in record["negative_answers"]
        assert pair == sft
        assert all(Path(image).is_absolute() and Path(image).is_file() for image in sft["images"])


def test_llama_factory_finds_every_column_by_its_description(folder):
    """Read both files by `dataset_info.json`, as LLaMA-Factory's documentation defines it."""
    out, rows = exported(folder, "llama-factory")
    info = json.loads((out / "dataset_info.json").read_text())
    assert list(info) == ["egoplan-it-sft", "egoplan-it-preferences"]
    for index, description in enumerate(info.values()):
        assert description["formatting"] == "sharegpt"
        tags = description["tags"]
        assert (out / description["file_name"]).is_file()
        for *both, record in rows:
            row = both[index]
            assert sorted(description["columns"].values()) == sorted(row)
            columns = {name: row[column] for name, column in description["columns"].items()}
            messages = columns["messages"]
            if description.get("ranking"):
                assert columns["rejected"][tags["content_tag"]] in record["negative_answers"]
                messages = [*messages, columns["chosen"]]
                assert columns["rejected"][tags["role_tag"]] == tags["assistant_tag"]
            roles = [message[tags["role_tag"]] for message in messages]
            texts = [message[tags["content_tag"]] for message in messages]
            assert roles == [tags["user_tag"], tags["assistant_tag"]]
            placeholders = "<image>" * len(columns["images"])
            assert texts == [placeholders + record["question"], record["answer"]]
            assert all((out / image).is_file() for image in columns["images"])
    assert [bool(description.get("ranking")) for description in info.values()] == [False, True]


def test_a_placeholder_in_a_text_is_refused(tmp_path):
    write_set(tmp_path, {"negative_answers": ["take <image>", "wash the cup"]})
    result, out = export(tmp_path, "ms-swift")
    assert result.exit_code == 1
    assert "sample_id 13, negative_answers[0]: contains <image>" in result.output
    assert not out.exists()


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
