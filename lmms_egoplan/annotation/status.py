"""Print the progress of a database and the agreement of its annotators."""

from collections.abc import Sequence
from dataclasses import fields

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lmms_egoplan.annotation.agreement import WHEN_UNDEFINED, Agreement, agreements
from lmms_egoplan.annotation.pages import disputed, stage_counts
from lmms_egoplan.annotation.store import Store, kept_predictions


def print_status(store: Store) -> None:
    """Print labels, people, agreement, and the number of items with differing labels."""
    labelled = store.labelled()
    for title, count, needed in stage_counts(labelled, store):
        typer.echo(f"{title}: {count} of {needed} labels")
    Console().print(_progress_table(store))
    Console().print(_agreement_table(agreements(store.flow, labelled)))
    typer.echo(WHEN_UNDEFINED)
    for line in (*store.flow.remarks(labelled), *kept_predictions(labelled)):
        typer.echo(line)
    typer.echo(f"Items with differing labels: {len(disputed(labelled, store))}")


def _progress_table(store: Store) -> Table:
    """Return a row for each annotator."""
    table = Table(
        "annotator",
        Column("labels", justify="right"),
        "state",
        Column("median seconds", justify="right"),
        Column("gold items right", justify="right"),
    )
    for progress in store.progress():
        table.add_row(
            escape(progress.person),
            str(progress.labelled),
            progress.state,
            "n/a" if progress.seconds is None else f"{progress.seconds:.1f}",
            f"{progress.gold_right} of {progress.gold}",
        )
    return table


def _agreement_table(rows: Sequence[Agreement]) -> Table:
    """Return a row for each scale."""
    names = [field.name for field in fields(Agreement) if field.name != "title"]
    table = Table("agreement on")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(escape(row.title), *(_number(getattr(row, name)) for name in names))
    return table


def _number(value: float | None) -> str:
    """Return a number of the table of agreement."""
    if value is None:
        return "n/a"
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}"
