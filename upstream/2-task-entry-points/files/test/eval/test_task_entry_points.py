"""Test tasks from installed packages (entry-point group ``lmms_eval.tasks``)."""

from pathlib import Path

import pytest
from loguru import logger

from lmms_eval.tasks import TaskManager

TASK = """
task: {name}
dataset_path: {origin}
output_type: generate_until
"""


def write_task(folder: Path, name: str, origin: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(TASK.format(name=name, origin=origin))
    return folder


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that installs a package with this source and these entry points."""

    def install(package: str, source: str, *values: str) -> None:
        site = tmp_path / f"site_{package}"
        information = site / f"{package}-1.0.dist-info"
        information.mkdir(parents=True)
        (site / f"{package}.py").write_text(source)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"name{number} = {value}" for number, value in enumerate(values)]
        (information / "entry_points.txt").write_text("\n".join(["[lmms_eval.tasks]", *lines, ""]))
        monkeypatch.syspath_prepend(str(site))

    return install


@pytest.fixture
def warnings():
    messages = []
    handler = logger.add(messages.append, format="{message}", level="WARNING")
    yield messages
    logger.remove(handler)


@pytest.fixture
def harness_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the harness's own tasks by a small folder, to avoid indexing all of them."""
    folder = write_task(tmp_path / "harness", "task_of_the_harness", "harness")
    index = TaskManager._get_task_and_group
    monkeypatch.setattr(TaskManager, "_get_task_and_group", lambda self, path: index(self, str(folder) if path.endswith("tasks/") else path))
    return folder


def origin(manager: TaskManager, task: str) -> str:
    return manager._get_config(task)["dataset_path"]


@pytest.mark.usefixtures("harness_tasks")
@pytest.mark.parametrize(("number", "payload"), enumerate(["FOLDER", "str(FOLDER)", "[FOLDER, FOLDER]", "lambda: FOLDER", "lambda: (path for path in [FOLDER])"]))
def test_entry_point_names_folders_or_a_callable(number: int, payload: str, install, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "package_tasks", "task_of_a_package", "package")
    install(f"provider{number}", f"import pathlib\nFOLDER = pathlib.Path({str(folder)!r})\npayload = {payload}\n", f"provider{number}:payload")
    manager = TaskManager()
    assert {"task_of_the_harness", "task_of_a_package"} <= set(manager.all_tasks)
    assert origin(manager, "task_of_a_package") == "package"


@pytest.mark.usefixtures("harness_tasks")
def test_harness_tasks_precede_included_and_package_tasks(install, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "package_tasks", "task_of_the_harness", "package")
    write_task(folder, "included_task", "package")
    included = write_task(tmp_path / "included", "included_task", "include_path")
    install("clashing", f"tasks = {str(folder)!r}\n", "clashing:tasks")
    manager = TaskManager(include_path=str(included))
    assert origin(manager, "task_of_the_harness") == "harness"
    assert origin(manager, "included_task") == "include_path"


def test_packages_are_ignored_without_defaults(install, tmp_path: Path) -> None:
    install("ignored", "raise RuntimeError('imported')\n", "ignored:tasks")
    folder = write_task(tmp_path / "included", "included_task", "include_path")
    assert TaskManager(include_path=str(folder), include_defaults=False).all_tasks == ["included_task"]


@pytest.mark.usefixtures("harness_tasks")
def test_a_broken_package_is_skipped_with_a_warning(install, warnings: list, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "package_tasks", "task_of_a_package", "package")
    broken = ["broken:missing_name", "broken:nowhere", "broken:number", "no_such_module:tasks"]
    install("broken", "nowhere = '/nowhere/at/all'\nnumber = 3\n", *broken)
    install("sound", f"tasks = {str(folder)!r}\n", "sound:tasks")
    assert "task_of_a_package" in TaskManager().all_tasks
    skipped = [message for message in warnings if "Skipping the tasks of entry point" in message]
    assert len(skipped) == len(broken)
    assert all(any(value in message for message in skipped) for value in broken)
