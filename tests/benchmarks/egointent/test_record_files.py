"""The forms that annotations come in, and what their keys are taken for."""

import csv
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from benchmarks.egointent.source import raw_record, raw_records, write_annotations, write_videos
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egointent.records import Record, load, mapping_lines, needed_videos, read_annotations
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import load_summary

PREPARE = ["data", "prepare", "egointent"]
RELEASE_KEYS = {"global_intent": "Procedural Intent", "next_step_plan": "next_step"}
VARIANT_KEYS = RELEASE_KEYS | {"step_id": "sample_id", "video_id": "video_uid", "start_sec": "start", "end_sec": "end"}


def renamed(records, names):
    return [{names.get(key, key): value for key, value in record.items()} for record in records]


def write_json(path, records):
    path.write_text(json.dumps(records))


def write_object(path, records):
    path.write_text(json.dumps({"version": "2026-08", "steps": records}, indent=1))


def write_lines(path, records):
    write_annotations(path, records)


def write_csv(path, records):
    with path.open("w", newline="", encoding="utf-8-sig") as lines:
        writer = csv.DictWriter(lines, {key: None for record in records for key in record})
        writer.writeheader()
        writer.writerows(records)


def write_parquet(path, records):
    keys = {key: None for record in records for key in record}
    parquet.write_table(pyarrow.table({key: [record.get(key) for record in records] for key in keys}), path)


FORMS = {
    "steps.json": write_json,
    "object.json": write_object,
    "steps.jsonl": write_lines,
    "steps.csv": write_csv,
    "steps.parquet": write_parquet,
}


@pytest.mark.parametrize("keys", [{}, RELEASE_KEYS, VARIANT_KEYS], ids=["format", "release", "variants"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_holds_the_same_records(tmp_path, name, keys):
    expected = read_annotations(write_annotations(tmp_path / "expected.jsonl", raw_records()))
    FORMS[name](tmp_path / name, renamed(raw_records(), keys))
    assert read_annotations(tmp_path / name) == expected


@pytest.mark.parametrize("name", ["steps.csv", "steps.parquet"])
def test_numbers_as_ids_of_tables_are_texts(tmp_path, name):
    FORMS[name](tmp_path / name, [raw_record(number, step_id=number) for number in (1, 2)])
    assert [record.step_id for record in read_annotations(tmp_path / name)] == ["1", "2"]


def test_a_key_of_the_format_comes_before_its_variants(tmp_path):
    write_lines(tmp_path / "a.jsonl", [raw_record(1, id=7, video="other.mp4", start="never", next=3)])
    (record,) = read_annotations(tmp_path / "a.jsonl")
    assert (record.step_id, record.start_sec) == ("s1", 0.5)


def test_what_is_ambiguous_is_named(tmp_path):
    record = renamed([raw_record(1)], {"step_id": "id"})[0] | {"sample_id": "other"}
    write_lines(tmp_path / "a.jsonl", [record])
    with pytest.raises(
        LmmsEgoplanError, match=r"line 1, .*step_id: given twice, as 'id' and as 'sample_id', with diff"
    ):
        read_annotations(tmp_path / "a.jsonl")
    write_lines(tmp_path / "a.jsonl", [raw_record(1, procedural_intent="another purpose")])
    with pytest.raises(LmmsEgoplanError, match=r"global_intent: given twice, as 'global_intent' and as 'procedural_"):
        read_annotations(tmp_path / "a.jsonl")


def test_a_folder_has_one_table_of_steps(tmp_path):
    write_json(tmp_path / "meta.json", [{"video_id": "a", "fps": 30}])
    (tmp_path / ".cache").mkdir()
    write_lines(tmp_path / ".cache" / "old.jsonl", raw_records())
    (tmp_path / "data").mkdir()
    records = raw_records()
    write_parquet(tmp_path / "data" / "test-00000-of-00002.parquet", records[:3])
    write_parquet(tmp_path / "data" / "test-00001-of-00002.parquet", records[3:])
    assert [record.step_id for record in read_annotations(tmp_path)] == [f"s{i}" for i in range(1, 7)]
    assert load(tmp_path)[4].place == "data/test-00001-of-00002.parquet, row 2"
    write_csv(tmp_path / "steps.csv", records)
    with pytest.raises(LmmsEgoplanError) as caught:
        read_annotations(tmp_path)
    assert (
        "several tables of steps; give one of them as a file:\n  data/test.parquet: 6 records\n  steps.csv: 6"
        in str(caught.value)
    )
    (tmp_path / "steps.csv").unlink()
    (tmp_path / "data" / "test-00000-of-00002.parquet").unlink()
    with pytest.raises(LmmsEgoplanError, match=r"of data/test.parquet there are 1 parts of 00002; download it again"):
        read_annotations(tmp_path)


def test_a_folder_without_steps_says_what_its_files_lack(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"clip": "x.mp4", "local_intent": "a"}])
    with pytest.raises(LmmsEgoplanError) as caught:
        read_annotations(tmp_path)
    assert (
        "a.jsonl: no video_id, start_sec, end_sec, global_intent, next_step_plan; keys: 'clip', 'local_intent'"
        in str(caught.value)
    )
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(LmmsEgoplanError, match=r"no file of \.json, "):
        read_annotations(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", "step_id,video_id\na\n", "line 2: 1 cells under 2 columns"),
        ("a.csv", "", "no records"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("a.json", '{"a": [1], "b": [2]}', "several lists of records, 'a', 'b'; keep one"),
        ("a.json", '{"a":\n 1}', "line 1: no JSON"),
    ],
)
def test_damaged_tables(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content)
    with pytest.raises(LmmsEgoplanError) as caught:
        read_annotations(tmp_path / name)
    assert problem in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_the_mapping_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    (tmp_path / "release").mkdir()
    write_csv(tmp_path / "release" / "steps.csv", renamed([raw_record(1, clip_id=5)], VARIANT_KEYS))
    lines = mapping_lines(load(tmp_path / "release"), Record.model_fields)
    assert "step_id: sample_id (1)" in lines
    assert "global_intent: Procedural Intent (1)" in lines
    assert lines[-1] == "left out: clip_id"
    write_videos(tmp_path / "videos")
    result = CliRunner().invoke(app, [*PREPARE, str(tmp_path / "release"), "--videos", str(tmp_path / "videos")])
    assert result.exit_code == 0, result.output
    assert "  end_sec: end (1)" in result.stdout
    result = CliRunner().invoke(app, [*PREPARE, "--videos", str(tmp_path / "videos")])
    assert result.exit_code == 2
    assert "FILE|DIR|hub" in result.stderr


def test_a_folder_or_file_named_hub_is_given_as_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    videos = str(write_videos(tmp_path / "videos"))
    (tmp_path / "hub").mkdir()
    write_annotations(tmp_path / "hub" / "steps.jsonl", raw_records())
    result = CliRunner().invoke(app, [*PREPARE, "./hub", "--videos", videos])
    assert result.exit_code == 0, result.output
    assert load_summary("egointent", "test")["annotations"] == str(tmp_path / "hub")
    result = CliRunner().invoke(app, [*PREPARE, "hub", "--videos", videos])
    assert result.exit_code == 1
    assert "py2279105943/EgoIntent" in result.stderr


def test_the_hub_out_of_reach_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        LmmsEgoplanError, match=r"py2279105943/EgoIntent: cannot load it from the hub: [\s\S]*egointent DIR"
    ):
        prepare_egointent("hub", tmp_path)


def test_the_hubs_copy_is_read_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "datasets--py2279105943--EgoIntent"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    write_lines(snapshot / "steps.jsonl", raw_records())
    summary = prepare_egointent("hub", write_videos(tmp_path / "videos"))
    assert (summary["annotations"], summary["questions"]) == ("py2279105943/EgoIntent", 6)


def test_videos_and_hours_for_the_downloader(tmp_path):
    path = write_annotations(tmp_path / "a.jsonl", raw_records())
    assert needed_videos(read_annotations(path)) == {"0a1b-2c": pytest.approx(1.9), "kitchen.3": pytest.approx(1.2)}
    out = tmp_path / "ids.txt"
    result = CliRunner().invoke(app, ["data", "list", "egointent", str(path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert Path(out).read_text() == "0a1b-2c\nkitchen.3\n"
    assert "2 videos, of which the 6 steps show 0.00 hours." in result.stdout
