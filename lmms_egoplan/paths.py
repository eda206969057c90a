"""Paths of installed tasks and prepared data, and readers for a module's data files."""

import csv
import os
from pathlib import Path
from typing import Any

import yaml

from lmms_egoplan.errors import LmmsEgoplanError


def _installed_tasks() -> Path:
    """Return the ``tasks/`` folder.

    It is inside the package, or next to it in an editable installation.
    """
    package = Path(__file__).resolve().parent
    inside = package / "tasks"
    return inside if inside.is_dir() else package.parent / "tasks"


LMMS_EVAL_TASKS = _installed_tasks() / "lmms_eval"
LM_EVAL_TASKS = _installed_tasks() / "lm_eval"
TASK_FOLDERS = {"lmms-eval": LMMS_EVAL_TASKS, "lm-eval": LM_EVAL_TASKS}
"""The folder of each harness's tasks."""


def data_root() -> Path:
    """Return the root folder of the prepared data.

    It is ``$LMMS_EGOPLAN_DATA``, else ``~/.cache/lmms_egoplan``.

    Raises:
        LmmsEgoplanError: The variable is not set, and the user has no home folder.
    """
    configured = os.environ.get("LMMS_EGOPLAN_DATA") or "~/.cache/lmms_egoplan"
    try:
        return Path(configured).expanduser()
    except RuntimeError as error:
        raise LmmsEgoplanError(
            "HOME is not set, and the user has no home folder; set LMMS_EGOPLAN_DATA to the folder "
            "of the prepared data"
        ) from error


def module_yaml(module: str) -> Any:
    """Read the YAML file next to a module that has the module's name.

    Args:
        module: ``__file__`` of the module.
    """
    return yaml.safe_load(Path(module).with_suffix(".yaml").read_text(encoding="utf-8"))


def module_rows(module: str) -> list[dict[str, str]]:
    """Read the CSV file next to a module that has the module's name.

    Each row maps columns to cells.

    Args:
        module: ``__file__`` of the module.
    """
    text = Path(module).with_suffix(".csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
