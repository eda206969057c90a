"""``lmms-egoplan tasks-path``: where a harness finds the tasks."""

from typing import Annotated, Literal

import typer

from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS

_FOLDERS = {"lmms-eval": LMMS_EVAL_TASKS, "lm-eval": LM_EVAL_TASKS}


def tasks_path(
    harness: Annotated[
        Literal["lmms-eval", "lm-eval"], typer.Option(help="The harness that is to find the tasks.")
    ] = "lmms-eval",
) -> None:
    """Print the folder of a harness's tasks.

    lm-eval always needs this folder. lmms-eval finds the tasks of runs by itself and needs the folder for lists only.

    Example: `lm-eval --include_path $(lmms-egoplan tasks-path --harness lm-eval) --tasks egoplan_val_blind --model hf`,
    or `lmms-eval tasks list --include-path $(lmms-egoplan tasks-path)`
    """
    typer.echo(_FOLDERS[harness])
