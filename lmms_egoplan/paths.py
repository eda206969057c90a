"""Where things are: the installed folders of tasks, and the root of the prepared data."""

import os
from pathlib import Path


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
