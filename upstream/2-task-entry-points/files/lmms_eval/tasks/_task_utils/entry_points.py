"""Find tasks of installed packages through the entry-point group ``lmms_eval.tasks``."""

import os
from importlib.metadata import entry_points

from loguru import logger as eval_logger

GROUP = "lmms_eval.tasks"


def plugin_task_folders() -> list[str]:
    """Return the task folders of installed packages, without duplicates.

    An entry point names a folder (``str`` or ``os.PathLike``), an iterable of
    folders, or a callable that returns either. If an entry point cannot be
    loaded, it is skipped with a warning: one broken package does not hide
    the tasks of the others.
    """
    folders: dict[str, None] = {}
    for entry_point in entry_points(group=GROUP):
        try:
            payload = entry_point.load()
            if callable(payload):
                payload = payload()
            payload_folders = [payload] if isinstance(payload, (str, os.PathLike)) else list(payload)
            paths = [os.path.abspath(folder) for folder in payload_folders]
            missing = [path for path in paths if not os.path.isdir(path)]
            if missing:
                raise FileNotFoundError(f"no folder {missing[0]}")
        except Exception as error:
            eval_logger.warning(f"Skipping the tasks of entry point '{entry_point.name} = {entry_point.value}': {type(error).__name__}: {error}")
            continue
        folders.update(dict.fromkeys(paths))
    return list(folders)
