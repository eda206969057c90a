"""The generated task files are those of the tool."""

import runpy
from pathlib import Path

from lmms_egoplan.benchmarks.conditions import SHORTCUTS
from lmms_egoplan.paths import TASK_FOLDERS
from lmms_egoplan.task_files import read_task_file, task_paths

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "make_tasks.py"))


def test_task_files_are_those_of_the_tool():
    """After a change of conditions, dimensions or presets, run ``python tools/make_tasks.py``."""
    texts = TOOL["task_texts"]()
    assert TOOL["written_files"]() == sorted(texts)
    for path, text in texts.items():
        assert path.read_text(encoding="utf-8") == text, path


def test_all_subfolders_are_those_of_the_tool():
    """Files in other subfolders would be written by hand, unlike those next to them."""
    for folder in TASK_FOLDERS.values():
        subfolders = {path.parent.name for path in folder.glob("*/*/*.yaml")}
        assert subfolders == set(TOOL["SUBFOLDERS"])


def test_a_condition_names_the_task_that_it_varies():
    for harness in TASK_FOLDERS:
        paths = task_paths(harness)
        for name, path in paths.items():
            metadata = read_task_file(path)["metadata"]
            assert ("shortcut" in metadata) == ("condition_of" in metadata), path
            if "shortcut" in metadata:
                assert metadata["shortcut"] in SHORTCUTS
                varied = read_task_file(paths[metadata["condition_of"]])["metadata"]
                assert varied["benchmark"] == metadata["benchmark"], name
                assert "shortcut" not in varied, name
                assert varied.get("asked_as") == metadata.get("asked_as"), name
