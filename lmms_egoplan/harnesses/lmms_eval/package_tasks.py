"""Tell this package's tasks from those of the harness and of other projects."""

from collections.abc import Iterator, Mapping
from typing import Any

from lmms_egoplan.task_files import is_package_task


def has_package_tasks(task_dict: Mapping[Any, Any]) -> bool:
    """Return whether an evaluation has tasks of this package, with or without scores.

    Args:
        task_dict: The harness's tasks by name. A group is a dictionary of its tasks; a task may
            come in a tuple with the name of its group.
    """
    return any(is_package_task(name, config) for name, config in _configs(task_dict))


def _configs(task_dict: Mapping[Any, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, value in task_dict.items():
        task = value[1] if isinstance(value, tuple) else value
        if isinstance(task, Mapping):
            yield from _configs(task)
        elif task is not None:
            yield name, {"metadata": task.config.metadata}
