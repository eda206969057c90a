"""Tasks that installed packages bring through the entry-point group ``lmms_eval.tasks``."""

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
    """Install a package whose module has this source, with these entry points."""

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
def own_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The harness's own tasks are those of a small folder, so that the test does not index all of them."""
    folder = write_task(tmp_path / "own", "task_of_the_harness", "harness")
    index = TaskManager._get_task_and_group
    monkeypatch.setattr(TaskManager, "_get_task_and_group", lambda self, path: index(self, str(folder) if path.endswith("tasks/") else path))
    return folder


def origin(manager: TaskManager, task: str) -> str:
    return manager._get_config(task)["dataset_path"]


@pytest.mark.usefixtures("own_tasks")
@pytest.mark.parametrize(("number", "payload"), enumerate(["FOLDER", "str(FOLDER)", "[FOLDER, FOLDER]", "lambda: FOLDER", "lambda: (path for path in [FOLDER])"]))
def test_an_entry_point_names_a_folder_several_or_a_callable(number: int, payload: str, install, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "package_tasks", "task_of_a_package", "package")
    install(f"bringer{number}", f"import pathlib\nFOLDER = pathlib.Path({str(folder)!r})\npayload = {payload}\n", f"bringer{number}:payload")
    manager = TaskManager()
    assert {"task_of_the_harness", "task_of_a_package"} <= set(manager.all_tasks)
    assert origin(manager, "task_of_a_package") == "package"


@pytest.mark.usefixtures("own_tasks")
def test_own_tasks_win_then_included_ones(install, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "package_tasks", "task_of_the_harness", "package")
    write_task(folder, "included_task", "package")
    included = write_task(tmp_path / "included", "included_task", "include_path")
    install("clashing", f"tasks = {str(folder)!r}\n", "clashing:tasks")
    manager = TaskManager(include_path=str(included))
    assert origin(manager, "task_of_the_harness") == "harness"
    assert origin(manager, "included_task") == "include_path"


def test_without_the_defaults_no_package_is_asked(install, tmp_path: Path) -> None:
    install("unasked", "raise RuntimeError('imported')\n", "unasked:tasks")
    folder = write_task(tmp_path / "included", "included_task", "include_path")
    assert TaskManager(include_path=str(folder), include_defaults=False).all_tasks == ["included_task"]


@pytest.mark.usefixtures("own_tasks")
def test_a_broken_package_hides_no_other(install, warnings: list, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "package_tasks", "task_of_a_package", "package")
    broken = ["broken:missing_name", "broken:nowhere", "broken:number", "no_such_module:tasks"]
    install("broken", "nowhere = '/nowhere/at/all'\nnumber = 3\n", *broken)
    install("sound", f"tasks = {str(folder)!r}\n", "sound:tasks")
    assert "task_of_a_package" in TaskManager().all_tasks
    skipped = [message for message in warnings if "Skipping the tasks of entry point" in message]
    assert len(skipped) == len(broken)
    assert all(any(value in message for message in skipped) for value in broken)
