"""The suite runs all prepared benchmarks in either harness, and logs one line for each skipped one."""

import pytest
from lm_eval.tasks import TaskManager
from lmms_eval.tasks import TaskManager as LMMSTaskManager

from lmms_egoplan.benchmarks.egoplan.prepare import Media, prepare_egoplan_bench2
from lmms_egoplan.benchmarks.registry import BENCHMARKS, DEMO_SETS
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import suite
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.storage import summary_path

SUITE = "egocentric_planning_suite"


@pytest.fixture(autouse=True)
def unprepared(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    suite._absence.cache_clear()
    yield
    suite._absence.cache_clear()


@pytest.fixture
def prepared(unprepared, tmp_path):
    demo = DEMO_SETS["egoplan_bench2"]
    copy_set(demo, tmp_path)
    prepare_egoplan_bench2(tmp_path / demo.prepare[1], Media({"Ego4D": tmp_path / demo.prepare[3]}))


def in_lmms_eval(name):
    manager = LMMSTaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False, model_name="hf_vlm")
    ((_, groups),) = manager.load_task_or_group([name]).items()
    ((_, tasks),) = groups.items()
    return list(tasks)


def in_lm_eval(name):
    manager = TaskManager(include_path=str(LM_EVAL_TASKS), include_defaults=False, metadata={})
    return list(manager.load([name])["tasks"])


@pytest.mark.parametrize("load", [in_lmms_eval, in_lm_eval])
@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        (SUITE, ["egoplan_bench2_generate", "egoplan_bench2"]),
        (f"{SUITE}_thinking", ["egoplan_bench2_thinking", "egoplan_bench2"]),
    ],
)
def test_prepared_benchmarks_run_and_each_skipped_one_is_logged(prepared, warned, load, name, tasks):
    assert load(name) == tasks
    skipped = [line for line in warned if line.startswith(f"{SUITE}: ")]
    assert len(skipped) == len(BENCHMARKS) - 1
    assert all(len(line.splitlines()) == 1 for line in skipped)
    for benchmark in BENCHMARKS:
        assert any(f" {benchmark.title}: " in line for line in skipped) is (benchmark.name != "egoplan_bench2")


@pytest.mark.parametrize("load", [in_lmms_eval, in_lm_eval])
def test_nothing_prepared_is_an_error(warned, load):
    """lmms-eval wraps errors raised by functions in YAML files."""
    with pytest.raises((LmmsEgoplanError, ImportError)):
        load(SUITE)
    assert "lmms-egoplan data status" in warned[-1]


def test_damaged_data_raise_instead_of_being_skipped(prepared, warned):
    summary_path("egoplan_bench2", "test").write_text("{")
    with pytest.raises((LmmsEgoplanError, ImportError)):
        in_lmms_eval(SUITE)
    assert "summary.json" in warned[-1]


def test_both_harnesses_have_all_tasks_of_the_suite():
    task_names = set(LMMSTaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False).all_tasks)
    theirs = set(TaskManager(include_path=str(LM_EVAL_TASKS), include_defaults=False).all_tasks)
    for benchmark in BENCHMARKS:
        assert benchmark.suite
        assert {*benchmark.suite, *benchmark.suite_thinking} <= task_names & theirs
        assert {*benchmark.suite_splits} <= {*benchmark.load_splits().official}
