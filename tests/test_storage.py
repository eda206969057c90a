import json
from pathlib import Path

import pytest
from datasets import Dataset, load_from_disk
from hypothesis import given
from hypothesis import strategies as st

from example_summary import SUMMARY
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import (
    PreparedData,
    hold,
    load_summary,
    prepared_splits,
    resolve_inside,
    save_split,
    split_dir,
)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_resolves_names_inside(tmp_path):
    assert resolve_inside(tmp_path, "P01", "rgb_frames/P01_13") == tmp_path.resolve() / "P01/rgb_frames/P01_13"
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "inner").symlink_to("a")
    assert resolve_inside(tmp_path / "link", "inner") == (tmp_path / "real" / "a").resolve()


@pytest.mark.parametrize("name", ["", " ", ".", "..", "../x", "a/../../x", "/etc", "a\0b", "\ud800"])
def test_refuses_names_that_lead_out(tmp_path, name):
    with pytest.raises(LmmsEgoplanError, match="is not a name of something inside"):
        resolve_inside(tmp_path, "P01", name)


def test_refuses_symlinks_that_lead_out(tmp_path):
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "out").symlink_to(other)
    (root / "P01").mkdir()
    (root / "P01" / "up").symlink_to("../..")
    for parts in (["out"], ["out", "video.mp4"], ["P01", "up", "other"]):
        with pytest.raises(LmmsEgoplanError, match="leads out of"):
            resolve_inside(root, *parts)


@given(st.lists(st.text(max_size=12) | st.sampled_from(["..", "/", "a/..", "../root", "~"]), max_size=4))
def test_never_leaves_the_root(parts):
    root = Path("/tmp").resolve()
    try:
        path = resolve_inside(root, *parts)
    except LmmsEgoplanError:
        return
    assert path.is_absolute()
    assert path.is_relative_to(root)


def test_split_is_saved_with_its_summary(data):
    assert load_summary("egoplan", "val") is None
    assert prepared_splits() == []
    dataset = Dataset.from_dict({"sample_id": [1, 2]})
    assert save_split(dataset, "egoplan", "val", SUMMARY) == split_dir("egoplan", "val")
    assert split_dir("egoplan", "val") == data / "egoplan" / "val"
    assert load_from_disk(data / "egoplan" / "val")["val"]["sample_id"][:] == [1, 2]
    assert load_summary("egoplan", "val") == SUMMARY
    assert prepared_splits() == [("egoplan", "val")]


def test_a_split_is_replaced_whole(data):
    save_split(Dataset.from_dict({"a": [1, 2, 3]}), "egoplan", "val", SUMMARY | {"questions": 3})
    (split_dir("egoplan", "val") / "stale").touch()
    save_split(Dataset.from_dict({"b": [7]}), "egoplan", "val", SUMMARY | {"questions": 1})
    assert load_from_disk(split_dir("egoplan", "val"))["val"][:] == {"b": [7]}
    assert load_summary("egoplan", "val") == SUMMARY | {"questions": 1}
    assert [entry.name for entry in (data / "egoplan").iterdir()] == ["val"]
    assert not (split_dir("egoplan", "val") / "stale").exists()


def test_a_failure_leaves_the_older_split(data):
    save_split(Dataset.from_dict({"a": [1]}), "egoplan", "val", SUMMARY | {"questions": 1})
    with pytest.raises(TypeError):
        save_split(Dataset.from_dict({"a": [2]}), "egoplan", "val", SUMMARY | {"questions": object()})
    assert load_from_disk(split_dir("egoplan", "val"))["val"]["a"][:] == [1]
    assert [entry.name for entry in (data / "egoplan").iterdir()] == ["val"]


def test_a_damaged_summary_is_an_error():
    save_split(Dataset.from_dict({"a": [1]}), "egoplan", "val", SUMMARY | {"questions": 1})
    summary = split_dir("egoplan", "val") / "summary.json"
    for damaged in (b"{", b"\xff", b"[" * 100_000, json.dumps({"a": 1}).encode("utf-16")):
        summary.write_bytes(damaged)
        with pytest.raises(LmmsEgoplanError, match=r"summary.json: damaged, prepare the split again"):
            load_summary("egoplan", "val")


def test_all_that_a_damaged_summary_lacks_is_told():
    save_split(Dataset.from_dict({"a": [1]}), "egoplan", "val", {"prepared": 3})
    told = "prepared: expected a text, found 3; split_size: expected an integer, found nothing; questions: "
    with pytest.raises(LmmsEgoplanError, match=told):
        load_summary("egoplan", "val")


@pytest.mark.parametrize("field", SUMMARY)
def test_a_summary_without_a_promised_field_is_an_error(field):
    lacking = {name: value for name, value in SUMMARY.items() if name != field}
    for damaged in (lacking, SUMMARY | {field: None}):
        save_split(Dataset.from_dict({"a": [1]}), "egoplan", "val", damaged)
        with pytest.raises(
            LmmsEgoplanError, match=rf"summary.json: damaged, prepare the split again: {field}: expected"
        ):
            load_summary("egoplan", "val")


@pytest.mark.parametrize("told", [{}, {"format": 1}])
def test_early_data_are_of_the_first_format(told):
    save_split(Dataset.from_dict({"a": [1]}), "egoplan", "val", SUMMARY | told)
    assert PreparedData("egoplan", "The {} split", str).load("val")["a"][:] == [1]
    with pytest.raises(
        LmmsEgoplanError, match=r"an earlier version .* from its files, in format 1; .* reads format 2\. val$"
    ):
        PreparedData("egoplan", "The {} split", str, 2).load("val")


@pytest.mark.parametrize("method", ["folder", "fingerprint", "load"])
def test_data_of_another_format_are_refused_by_all(method):
    save_split(Dataset.from_dict({"a": [1]}), "egoplan", "val", SUMMARY | {"format": 3, "source": "/data"})
    with pytest.raises(LmmsEgoplanError, match=r"The val split in .*: a newer version .* from /data, in format 3"):
        getattr(PreparedData("egoplan", "The {} split", str, 2), method)("val")


@pytest.mark.parametrize("damaged", ["1", None, 1.5, [1]])
def test_a_format_that_is_no_number_is_damage(damaged):
    save_split(Dataset.from_dict({"a": [1]}), "egoplan", "val", SUMMARY | {"format": damaged})
    with pytest.raises(
        LmmsEgoplanError, match=r"summary.json: damaged, prepare the split again: format: expected an integer"
    ):
        load_summary("egoplan", "val")


def test_a_lock_is_held_once_and_a_folder_that_is_not_there_is_told(tmp_path):
    lock = hold(tmp_path / "lock")
    assert lock is not None
    assert hold(tmp_path / "lock") is None
    lock.close()
    assert hold(tmp_path / "lock") is not None
    with pytest.raises(OSError, match="cannot be locked: unable to open"):
        hold(tmp_path / "absent" / "lock")
