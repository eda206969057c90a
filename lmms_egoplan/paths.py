"""Where things are: installed folders of tasks, the root of the prepared data, and data that stand beside a module."""

import csv
import os
from pathlib import Path
from typing import Any

import yaml


def _installed_tasks() -> Path:
    """The top-level ``tasks/`` folder, inside the installed package or beside it (editable)."""
    package = Path(__file__).resolve().parent
    inside = package / "tasks"
    return inside if inside.is_dir() else package.parent / "tasks"


LMMS_EVAL_TASKS = _installed_tasks() / "lmms_eval"
LM_EVAL_TASKS = _installed_tasks() / "lm_eval"


def data_root() -> Path:
    """Root of the prepared data: ``$LMMS_EGOPLAN_DATA``, else ``~/.cache/lmms_egoplan``."""
    configured = os.environ.get("LMMS_EGOPLAN_DATA")
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "lmms_egoplan"


def yaml_beside(module: str) -> Any:
    """What the YAML file of a module's name, beside it, holds.

    Args:
        module: its ``__file__``.
    """
    return yaml.safe_load(Path(module).with_suffix(".yaml").read_text(encoding="utf-8"))


def rows_beside(module: str) -> list[dict[str, str]]:
    """The rows of the CSV file of a module's name, beside it, by column.

    Args:
        module: its ``__file__``.
    """
    return list(csv.DictReader(Path(module).with_suffix(".csv").read_text(encoding="utf-8").splitlines()))
