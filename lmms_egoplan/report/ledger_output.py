"""Print published scores with their sources."""

from dataclasses import replace
from itertools import groupby
from typing import Literal

import typer
from rich.console import Console

from lmms_egoplan.report.ledger import ledger_table, read_ledger, scores_of_model
from lmms_egoplan.report.tables import Row, csv_of, markdown_of
from lmms_egoplan.report.terminal import print_table


def print_ledger(
    model: str | None, benchmark: str | None, form: Literal["text", "md", "csv"]
) -> None:
    """Print published scores, best first.

    Args:
        model: Part of the models' names; None for all models.
        benchmark: Name of a benchmark; None for all benchmarks.
        form: ``text`` for a table of each benchmark, otherwise the form of a single table.
    """
    scores = [score for score in read_ledger() if benchmark in (None, score.group[0])]
    if model is not None:
        scores = scores_of_model(scores, model)
    table = ledger_table(scores, with_spread=model is not None)
    if form == "text":
        for group, rows in groupby(table.rows, key=lambda row: row.values[:2]):
            part = replace(
                table,
                title=", ".join(str(name) for name in group),
                columns=table.columns[2:-1],
                rows=tuple(Row(row.values[2:-1]) for row in rows),
            )
            print_table(part, Console())
    elif form == "md":
        typer.echo(markdown_of(table), nl=False)
    else:
        typer.echo(csv_of(table, with_own=False), nl=False)
    if form != "md":
        typer.echo("\n".join(table.notes), err=form == "csv")
