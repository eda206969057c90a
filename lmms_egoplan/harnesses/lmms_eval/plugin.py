"""Register this package's models and tasks with lmms-eval.

lmms-eval calls `register` through the entry-point group ``lmms_eval.models`` at startup. A harness
with the group ``lmms_eval.tasks`` finds the tasks there (`task_folder`). Otherwise, they are added
to its `TaskManager`. `patches` has all changes to the harness.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from lmms_egoplan.harnesses.lmms_eval import patches
from lmms_egoplan.paths import LMMS_EVAL_TASKS

_FOLDER = "lmms_egoplan.harnesses.lmms_eval"


def register() -> Iterable[Any]:
    """Register the tasks, and return the manifests of the models.

    They include ``llava`` if upstream's cannot run.

    ``lmms_eval.tasks`` loads torch, so it is not imported here: the tasks are added when the
    harness imports it.
    """
    from lmms_eval.models.registry_v2 import ModelManifest

    classes = {"hf_vlm": "HFVLM", "scripted": "Scripted", "vllm_ranker": "VLLMRanker"}
    llava = importlib.util.find_spec("llava")
    # LLaVA-NeXT, which lmms-eval's own backend needs, is not installed
    if llava is None or llava.origin is None:
        classes["llava"] = "Llava"
    tasks = sys.modules.get(patches.TASKS_MODULE)
    if tasks:
        patches.apply(tasks, classes.keys())
    elif importlib.util.find_spec(patches.TASKS_MODULE) is None:
        patches.warn_that_tasks_are_not_registered(f"it has no {patches.TASKS_MODULE}")
    elif not any(isinstance(finder, _TasksFinder) for finder in sys.meta_path):
        finder = _TasksFinder(lambda module: patches.apply(module, classes.keys()))
        sys.meta_path.insert(0, finder)
    command = sys.modules.get(patches.COMMAND_MODULE)
    if command:
        patches.apply_to_command(command, classes.keys())
    return [
        ModelManifest(name, simple_class_path=f"{_FOLDER}.{name}.{class_name}")
        for name, class_name in classes.items()
    ]


def task_folder() -> Path:
    """Return the folder of the package's tasks, for harnesses that request it."""
    return LMMS_EVAL_TASKS


class _TasksFinder(MetaPathFinder):
    """Find ``lmms_eval.tasks`` with the other finders, and change it after the import."""

    def __init__(self, change: Callable[[ModuleType], None]) -> None:
        self._change = change

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != patches.TASKS_MODULE:
            return None
        finders = (finder for finder in sys.meta_path if not isinstance(finder, _TasksFinder))
        spec = next(
            filter(None, (finder.find_spec(fullname, path, target) for finder in finders)), None
        )
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            self._change(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec
