"""Identify a checkpoint by its weights and files."""

import json
import os

import pytest

from lmms_egoplan.harnesses.checkpoints import folder_version, weights_version


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model" / "processor").mkdir(parents=True)
    (tmp_path / "model" / "weights.bin").write_bytes(b"1234")
    (tmp_path / "model" / "processor" / "config.json").write_text("{}")
    return tmp_path / "model"


def test_a_folder_is_identified_by_its_files(folder):
    version = weights_version(str(folder), None)
    assert weights_version(str(folder), "ignored") == version
    status = (folder / "weights.bin").stat()
    (folder / "weights.bin").write_bytes(b"4321")
    os.utime(folder / "weights.bin", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert weights_version(str(folder), None) != version


@pytest.mark.parametrize("name", ["new.json", "processor/config.json"])
def test_an_added_or_changed_file_changes_the_version(folder, name):
    version = weights_version(str(folder), None)
    (folder / name).write_text("{ }")
    assert weights_version(str(folder), None) != version


def test_an_adapters_version_includes_its_base(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": str(folder)})
    )
    version = weights_version(str(adapter), None)
    (folder / "weights.bin").write_bytes(b"12345")
    assert weights_version(str(adapter), None) != version


def test_a_hub_name_is_identified_by_its_commit():
    assert (
        weights_version("org/model", "abc")
        == weights_version("org/model", "abc")
        != weights_version("org/model", "d")
    )
    assert weights_version("org/model", None) != weights_version("org/model", None)
    assert folder_version("org/model") is folder_version(3) is folder_version(None) is None


def test_adapters_that_name_each_other_are_read_once(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, other in zip(folders, folders[::-1], strict=True):
        folder.mkdir()
        (folder / "adapter_config.json").write_text(
            json.dumps({"base_model_name_or_path": str(other)})
        )
    assert weights_version(str(folders[0]), None) != weights_version(str(folders[1]), None)
