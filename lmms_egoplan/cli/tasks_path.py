"""``lmms-egoplan tasks-path``: where the harness finds the tasks."""

import typer

from lmms_egoplan.paths import LMMS_EVAL_TASKS


def tasks_path() -> None:
    """Print the folder of the lmms-eval tasks.

    Needed only where the plugin cannot register it by itself.

    Example: `lmms-eval tasks list --include-path $(lmms-egoplan tasks-path)`, or, in an evaluation,
    `lmms-eval --tasks egoplan_val --model llava --include_path $(lmms-egoplan tasks-path)`
    """
    typer.echo(LMMS_EVAL_TASKS)
