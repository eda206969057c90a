"""A scored question loads its benchmark's modules and the shared ones, and no other room."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "tools" / "loaded_modules.py"
SPEC = importlib.util.spec_from_file_location("loaded_modules_tool", PATH)
TOOL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)

NO_ROOMS = {
    "annotation",
    "cli",
    "construction",
    "demo",
    "harnesses",
    "launch",
    "overlap",
    "planner",
    "report",
    "sensitivity",
    "training",
}


@pytest.mark.parametrize("case", TOOL.CASES)
def test_scoring_loads_no_other_room(case):
    modules = TOOL.loaded_modules(TOOL.CASES[case])
    rooms = {name.split(".")[1] for name in modules if "." in name}
    assert "benchmarks" in rooms
    assert not rooms & NO_ROOMS
    benchmarks = {name.split(".")[2] for name in modules if name.count(".") > 2}
    assert len(benchmarks & {"actplan", "egointent", "egoplan", "egothink"}) == 1
