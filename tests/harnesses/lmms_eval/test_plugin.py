"""The plugin registers models and tasks, and the harness keeps working after any change to it."""

import configparser
import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace

import lmms_eval.models
import pytest
from lmms_eval.tasks import TaskManager

from benchmarks.egothink.source import write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.harnesses.lmms_eval import plugin
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.harnesses.lmms_eval.llava import DEFAULT_CHECKPOINT, PORTS, Llava
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from zoo import save

REPOSITORY = Path(__file__).parents[3]
TASKS = {
    "egoplan_val",
    "egoplan_val_clips",
    "egoplan_val_blind",
    "egoplan_val_generate",
    "egoplan_test",
    "egoplan_bench",
}
PROPOSED = "upstream/2-task-entry-points/files/lmms_eval/tasks/_task_utils/entry_points.py"
UPSTREAMS_LLAVA = "lmms_eval.models.simple.llava.Llava"


@pytest.fixture(autouse=True)
def task_manager(monkeypatch):
    """The harness's original class; changes by a test are undone."""
    monkeypatch.setattr(TaskManager, "initialize_tasks", TaskManager.initialize_tasks)


@pytest.fixture
def without_hook(monkeypatch):
    original = TaskManager.initialize_tasks
    while hasattr(original, "__wrapped__"):
        original = original.__wrapped__
    monkeypatch.setattr(TaskManager, "initialize_tasks", original)


def test_the_harness_finds_the_models():
    assert lmms_eval.models.get_model("hf_vlm") is HFVLM
    assert lmms_eval.models.get_model("llava") is Llava


@pytest.mark.nightly
def test_the_harness_finds_the_tasks_and_its_own():
    manager = TaskManager()
    assert set(manager.all_tasks) >= TASKS
    assert manager.task_index["egocentric_planning"]["type"] == "tag"
    assert "mmmu_val" in manager.all_tasks  # upstream's own


def test_registering_twice_changes_nothing(monkeypatch):
    folders = []

    def get_task_and_group(self, folder):
        folders.append(folder)
        return {}

    monkeypatch.setattr(TaskManager, "_get_task_and_group", get_task_and_group)
    assert list(plugin.register()) == list(plugin.register())
    for include_path in (None, "elsewhere", ["elsewhere", str(LMMS_EVAL_TASKS)]):
        TaskManager(include_path=include_path)
        assert folders.count(str(LMMS_EVAL_TASKS)) == 1
        assert folders.count("elsewhere") == (include_path is not None)
        folders.clear()


@pytest.mark.usefixtures("without_hook")
def test_include_path_alone_is_enough():
    assert not TASKS & set(TaskManager(include_defaults=False).all_tasks)
    manager = TaskManager(include_path=str(LMMS_EVAL_TASKS), include_defaults=False)
    assert set(manager.all_tasks) >= TASKS


def test_without_defaults_only_the_included_folder_is_indexed(tmp_path):
    plugin.register()
    assert TaskManager(include_path=str(tmp_path), include_defaults=False).all_tasks == []


def test_a_judge_shared_by_two_benchmarks_is_tested_once(tmp_path, monkeypatch):
    """When the tasks are chosen and when they are loaded. Requests with images are tested, too."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare_egothink(write_source(tmp_path / "source"))
    names = ["egothink_object_existence", "egothink_object_attribute"]
    with JudgeServer(lambda *_: Reply()) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "judge-of-two")
        monkeypatch.setattr(TaskManager, "match_tasks", TaskManager.match_tasks)
        plugin.register()
        folders = [str(LMMS_EVAL_TASKS / name) for name in ("egothink", "egointent")]
        manager = TaskManager(include_path=folders, include_defaults=False)
        manager.match_tasks([*names, "egointent", "egointent_diagnostics"])
        assert len(manager.load_task_or_group(names)) == 2
    assert [type(body["messages"][-1]["content"]) for body in server.bodies] == [str, list]


@pytest.mark.usefixtures("without_hook")
def test_a_harness_with_an_entry_point_group_for_tasks_is_not_patched(monkeypatch):
    """The proposed group returns the folder that this package declares."""
    settings = configparser.ConfigParser()
    settings.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    lines = settings["options.entry_points"]["lmms_eval.tasks"].strip().splitlines()
    points = [EntryPoint(*re.split(" = ", line), group="lmms_eval.tasks") for line in lines]
    proposed = runpy.run_path(str(REPOSITORY / PROPOSED))["plugin_task_folders"]
    proposed.__globals__["entry_points"] = lambda group: points if group == points[0].group else []
    assert proposed() == [str(LMMS_EVAL_TASKS)]
    monkeypatch.setattr("lmms_eval.tasks.plugin_task_folders", proposed, raising=False)
    before = TaskManager.initialize_tasks
    plugin.register()
    assert TaskManager.initialize_tasks is before


def renamed(monkeypatch):
    monkeypatch.delattr(TaskManager, "initialize_tasks")


def reworked(monkeypatch):
    monkeypatch.setattr(TaskManager, "initialize_tasks", lambda self, sources: {})


def moved(monkeypatch):
    monkeypatch.delattr("lmms_eval.tasks.TaskManager")


@pytest.mark.parametrize("change", [renamed, reworked, moved])
def test_a_changed_harness_gets_the_models_and_logs_a_hint(change, monkeypatch, warned):
    change(monkeypatch)
    assert {manifest.model_id for manifest in plugin.register()} == {
        "hf_vlm",
        "scripted",
        "vllm_ranker",
        "llava",
    }
    (warning,) = warned
    assert "--include_path $(lmms-egoplan tasks-path)" in warning


def test_the_command_exits_with_a_message_after_a_failed_audit(monkeypatch):
    """As after a run with a forced ranking path."""
    details = {"egoplan_val": {"ranking": {"difference": 0.5, "tolerance": 1e-4}}}
    command = ModuleType("lmms_eval.__main__")
    command.cli_evaluate_single = lambda _: ({"details": details}, None)
    command.cli_evaluate = lambda: command.cli_evaluate_single(SimpleNamespace(model="hf_vlm"))
    monkeypatch.setitem(sys.modules, command.__name__, command)
    plugin.register()
    with pytest.raises(SystemExit, match=r"lmms-egoplan: .*egoplan_val: .* 0\.5 nats"):
        command.cli_evaluate()


def test_upstreams_llava_is_kept_if_its_package_is_installed(tmp_path, monkeypatch):
    (tmp_path / "llava").mkdir()
    (tmp_path / "llava" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = lmms_eval.models._initialize_model_registry()
    assert registry.resolve("llava").class_path == UPSTREAMS_LLAVA
    assert registry.get_model_class("hf_vlm") is HFVLM


def test_a_folder_named_llava_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "llava").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert lmms_eval.models._initialize_model_registry().get_model_class("llava") is Llava


def test_llava_maps_original_names_and_logs_it(tmp_path, monkeypatch, warned):
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "tests")
    monkeypatch.chdir(tmp_path)
    save("llava", tmp_path / DEFAULT_CHECKPOINT)
    Llava()
    Llava("liuhaotian/llava-v1.5-7b")
    default, original = (warning for warning in warned if "llava" in warning)
    assert all(
        DEFAULT_CHECKPOINT in warning and "hf_vlm" in warning for warning in (default, original)
    )
    assert "liuhaotian/llava-v1.5-7b" in original
    assert "liuhaotian/llava-v1.5-7b" not in default


@pytest.mark.parametrize("original", PORTS)
def test_ports_keep_version_language_model_and_size(original):
    organisation, name = PORTS[original].split("/")
    parts = original.split("/")[1].removeprefix("llava-").split("-")
    assert organisation == "llava-hf"
    assert name.endswith("-hf")
    assert name.split("-")[-2] == parts[-1]
    assert all(part.removeprefix("v") in name for part in parts)


@pytest.mark.nightly
def test_the_installed_wheel_finds_its_tasks(tmp_path):
    pytest.importorskip("setuptools", minversion="77", reason="builds a wheel without a network")
    source = tmp_path / "source"
    for folder in ("lmms_egoplan", "tasks"):
        shutil.copytree(
            REPOSITORY / folder,
            source / folder,
            ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
        )
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        if (REPOSITORY / name).exists():
            shutil.copy(REPOSITORY / name, source)
    installed = tmp_path / "installed"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*command, "--no-index", "--target", installed, source], check=True)
    printed = subprocess.run(
        [installed / "bin" / "lmms-egoplan", "tasks-path"],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed.returncode == 0, printed.stderr
    folder = Path(printed.stdout.strip())
    assert folder == installed / "lmms_egoplan" / "tasks" / "lmms_eval"
    assert set(TaskManager(include_path=str(folder), include_defaults=False).all_tasks) >= TASKS
