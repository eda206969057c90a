"""``lmms-egoplan data status`` and ``tasks-path``: show the prepared splits and the folder of the
tasks.
"""

from datetime import datetime, timezone
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.coverage import OWN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import TASK_FOLDERS, data_root
from lmms_egoplan.storage import load_summary, prepared_splits


def status() -> None:
    """Show the prepared splits and how complete they are.

    All columns count questions, steps or instances: "of file" in the published file or folder,
    "official" in the benchmark's paper.

    Example: `lmms-egoplan data status`
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for title in ("benchmark", "split"):
        table.add_column(title, no_wrap=True, overflow="fold")
    for title in ("prepared", "of file", "missing", "official"):
        table.add_column(title, justify="right")
    table.add_column("time (UTC)", no_wrap=True, overflow="fold")
    splits = {benchmark.name: benchmark.splits for benchmark in BENCHMARKS}
    remarks: list[str] = []
    own: list[str] = []
    unreadable: list[str] = []
    for benchmark, split in prepared_splits():
        summary = load_summary(benchmark, split)
        if summary is None:
            continue
        size = summary["split_size"]
        official: int | str = "n/a"
        if benchmark in splits:
            substitute = splits[benchmark].substitute(summary)
            if substitute:
                remarks.append(f"{benchmark}/{split}: {substitute}.")
            elif summary.get("question_set") == OWN:
                own.append(f"{benchmark}/{split}")
            else:
                official = splits[benchmark].official.get(split, "n/a")
            try:
                splits[benchmark].check(split, summary)
            except LmmsEgoplanError as error:
                unreadable.append(str(error))
        numbers = (summary["questions"], size, size - summary["questions"], official)
        table.add_row(benchmark, split, *map(str, numbers), _utc(summary["prepared"]))
    if table.row_count:
        typer.echo(
            f"Prepared in {data_root()} (LMMS_EGOPLAN_DATA sets the folder), each split "
            "in <benchmark>/<split>:"
        )
        Console().print(table)
        if own:
            remarks.append(f"Not the published questions: {', '.join(own)}.")
        for remark in remarks:
            typer.echo(remark)
    else:
        typer.echo(
            f"Nothing is prepared in {data_root()} (LMMS_EGOPLAN_DATA sets the folder).\n"
            "Prepare a benchmark: "
            + "\n                 or: ".join(
                f"lmms-egoplan data prepare {name} --help" for name in splits
            )
        )
    if unreadable:
        raise LmmsEgoplanError("\n".join(unreadable))


def _utc(text: str) -> str:
    """Format a summary's time to the minute; return other texts unchanged."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{time.astimezone(timezone.utc) if time.tzinfo else time:%Y-%m-%d %H:%M}"


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
    typer.echo(TASK_FOLDERS[harness])
