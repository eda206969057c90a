"""Versions of the tasks: the same in both harnesses, told in the changelogs, and as results tell them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.tasks._yaml_loader import load_yaml
from lmms_eval.utils import load_yaml_config

from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.report.task_versions import age, logged_version, package_versions, version_text


def configs(folder):
    """What the harness itself reads of its tasks and groups, by name."""
    if folder == LM_EVAL_TASKS:
        read = [load_yaml(path, resolve_func=False) for path in sorted(folder.glob("*/*.yaml"))]
    else:
        read = [load_yaml_config(str(path), mode="simple") for path in sorted(folder.glob("*/*.yaml"))]
    named = {each.get("group") or each.get("task"): each for each in read}
    named.pop(None, None)  # What tasks share.
    return named


@pytest.fixture(scope="module")
def found():
    return configs(LMMS_EVAL_TASKS), configs(LM_EVAL_TASKS)


def version(config):
    return version_text(config["metadata"]["version"])


def test_every_task_has_a_number_as_version(found):
    lmms_eval, lm_eval = found
    assert min(len(lmms_eval), len(lm_eval)) >= 29
    for config in (*lmms_eval.values(), *lm_eval.values()):
        assert isinstance(config["metadata"]["version"], float), config


def test_a_task_has_one_version_in_both_harnesses(found):
    lmms_eval, lm_eval = found
    both = lmms_eval.keys() & lm_eval.keys()
    assert len(both) > 25
    assert {name: version(lmms_eval[name]) for name in both} == {name: version(lm_eval[name]) for name in both}


def test_the_report_reads_the_versions_that_the_harnesses_read(found):
    lmms_eval, lm_eval = found
    assert package_versions() == {name: version(config) for name, config in (lmms_eval | lm_eval).items()}


def test_a_group_has_the_newest_version_of_its_tasks(found):
    for configs_of_harness in found:
        for name, config in configs_of_harness.items():
            if "group" in config:
                tasks = [package_versions()[task] for task in config["task"]]
                assert version(config) == max(tasks, key=age), name


@pytest.mark.parametrize(
    "names",
    [
        [name for name in package_versions() if name.startswith("egothink")],
        ["actplan", "actplan_normal", "actplan_counterfactual"],
    ],
    ids=["egothink", "actplan"],
)
def test_what_is_averaged_or_part_of_one_has_one_version(names):
    assert len(names) >= 3
    assert len({package_versions()[name] for name in names}) == 1


@pytest.mark.parametrize("folder", [LMMS_EVAL_TASKS, LM_EVAL_TASKS], ids=["lmms-eval", "lm-eval"])
@pytest.mark.parametrize("benchmark", [benchmark.name for benchmark in BENCHMARKS])
def test_the_changelog_has_a_line_for_each_current_version(folder, benchmark):
    lines = (folder / benchmark / "README.md").read_text(encoding="utf-8").partition("## Changelog")[2].splitlines()
    told = {match[1] for line in lines if (match := re.match(r"[-*] \**(\d+\.\d+)\b", line))}
    current = {version(config) for name, config in configs(folder).items() if name.startswith(benchmark)}
    assert current
    assert current <= told


@pytest.mark.parametrize("value", [2, 2.0, "2", "2.0", " 2.0 "])
def test_equal_numbers_are_one_version(value):
    results = {"versions": {"egoplan_val": value}, "configs": {"egoplan_val": {"metadata": {"version": 2.0}}}}
    assert logged_version(results, "egoplan_val") == "2.0"


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({"versions": {"t": 1.0}}, "1.0"),
        ({"configs": {"t": {"metadata": {"version": "1.0-beta"}}}}, "1.0-beta"),
        ({"versions": {"t": "Yaml"}, "configs": {"t": {"metadata": {"version": 3}}}}, "3.0"),
        ({"versions": {"t": 1.0}, "configs": {"t": {"metadata": {"version": 2.0}}}}, "1.0 or 2.0"),
        ({"versions": {"other": 1.0}, "configs": {"t": {"metadata": None}}}, None),
        ({"versions": {"t": {}}, "configs": None}, None),
        ({"versions": [1.0]}, None),
        ({"versions": {"t": float("nan")}}, None),
        ({"versions": {"t": True}}, None),
        ([], None),
    ],
)
def test_what_results_tell(results, expected):
    assert logged_version(results, "t") == expected


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9), st.lists))
def test_any_value_is_a_version_or_none(value):
    version = logged_version({"versions": {"t": value}}, "t")
    assert version is None or (version and version_text(version) == version)
    assert age(None) <= age(version)


def test_the_newest_version_is_the_last():
    assert sorted(["10.0", None, "2.0", "1.1", "1.0"], key=age) == [None, "1.0", "1.1", "2.0", "10.0"]
