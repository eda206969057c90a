"""The suite runs all prepared benchmarks in either harness, and logs one line per skipped one."""

import shutil

import lmms_eval.evaluator  # noqa: F401 - it removes all sinks of the log, so no test may be the first to load it
import pytest
from lm_eval.tasks import TaskManager
from lmms_eval.tasks import TaskManager as LMMSTaskManager

from lmms_egoplan.benchmarks.base import BENCHMARKS, DEMO_SETS
from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan_bench2
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import suite
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.storage import summary_path

SUITE = "egocentric_planning_suite"


@pytest.fixture(autouse=True)
def unprepared(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    suite._warn_once.cache_clear()
    yield
    suite._warn_once.cache_clear()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return the folder of one prepared benchmark. Tests only read it."""
    folder, demo = tmp_path_factory.mktemp("bench2"), DEMO_SETS["egoplan_bench2"]
    copy_set(demo, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_egoplan_bench2(folder / demo.prepare[1], Media({"Ego4D": folder / demo.prepare[3]}))
    return folder / "data"


@pytest.fixture
def prepared(unprepared, data, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))


def in_lmms_eval(*names):
    manager = LMMSTaskManager(
        "ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False, model_name="hf_vlm"
    )
    loaded = []
    for name in names:
        ((_, groups),) = manager.load_task_or_group([name]).items()
        ((_, tasks),) = groups.items()
        loaded.append(list(tasks))
    return loaded


def in_lm_eval(*names):
    manager = TaskManager(include_path=str(LM_EVAL_TASKS), include_defaults=False, metadata={})
    return [list(manager.load([name])["tasks"]) for name in names]


@pytest.mark.parametrize("load", [in_lmms_eval, in_lm_eval])
def test_prepared_benchmarks_run_and_each_skipped_one_is_logged_once(prepared, warned, load):
    tasks, thinking_tasks = load(SUITE, f"{SUITE}_thinking")
    assert tasks == ["egoplan_bench2_generate", "egoplan_bench2"]
    assert thinking_tasks == ["egoplan_bench2_thinking", "egoplan_bench2"]
    skipped = [line for line in warned if line.startswith(f"{SUITE}: ")]
    assert len(skipped) == len(BENCHMARKS) - 1
    assert all(len(line.splitlines()) == 1 for line in skipped)
    for benchmark in BENCHMARKS:
        assert any(f" {benchmark.title}: " in line for line in skipped) is (
            benchmark.name != "egoplan_bench2"
        )


@pytest.mark.parametrize("load", [in_lmms_eval, in_lm_eval])
def test_another_data_folder_has_its_own_benchmarks(prepared, tmp_path, monkeypatch, load):
    assert load(SUITE) == [["egoplan_bench2_generate", "egoplan_bench2"]]
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "empty"))
    with pytest.raises((LmmsEgoplanError, ImportError)):
        load(SUITE)


@pytest.mark.parametrize("load", [in_lmms_eval, in_lm_eval])
def test_nothing_prepared_is_an_error(warned, load):
    """lmms-eval wraps errors raised by functions in YAML files."""
    with pytest.raises((LmmsEgoplanError, ImportError)):
        load(SUITE)
    assert "lmms-egoplan data status" in warned[-1]


def test_damaged_data_raise_instead_of_being_skipped(data, tmp_path, warned):
    shutil.copytree(data, tmp_path / "data")
    summary_path("egoplan_bench2", "test").write_text("{")
    with pytest.raises(LmmsEgoplanError):
        in_lm_eval(SUITE)
    assert "summary.json" in warned[-1]


def test_both_harnesses_have_all_tasks_of_the_suite():
    task_names = set(
        LMMSTaskManager(
            "ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False
        ).all_tasks
    )
    theirs = set(TaskManager(include_path=str(LM_EVAL_TASKS), include_defaults=False).all_tasks)
    for benchmark in BENCHMARKS:
        assert benchmark.suite
        assert {*benchmark.suite, *benchmark.suite_thinking} <= task_names & theirs
        assert {*benchmark.suite_splits} <= {*benchmark.splits.official}
