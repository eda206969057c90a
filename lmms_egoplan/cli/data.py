"""``lmms-egoplan data status`` and ``tasks-path``.

They show the prepared splits, and the folder of the tasks.
"""

from typing import Annotated, Literal

import typer


def status() -> None:
    """Show the prepared splits and how complete they are.

    All columns count questions, steps or instances: "of file" in the published file or folder,
    "official" in the benchmark's paper.

    Example: `lmms-egoplan data status`
    """
    from lmms_egoplan.report.prepared_splits import print_prepared_splits

    print_prepared_splits()


def tasks_path(
    harness: Annotated[
        Literal["lmms-eval", "lm-eval"], typer.Option(help="Harness that runs the tasks.")
    ] = "lmms-eval",
) -> None:
    """Print the folder with a harness's tasks.

    lm-eval always needs this folder. lmms-eval needs it only to list tasks; in runs, it finds the
    tasks by itself.

    Example: `lm-eval --include_path $(lmms-egoplan tasks-path --harness lm-eval) --tasks
    egoplan_val_blind --model hf`, or `lmms-eval tasks list --include-path $(lmms-egoplan
    tasks-path)`
    """
    from lmms_egoplan.paths import TASK_FOLDERS

    typer.echo(TASK_FOLDERS[harness])
