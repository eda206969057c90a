"""Print the prepared splits, and how complete they are."""

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.coverage import OWN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import data_root
from lmms_egoplan.storage import load_summary, prepared_splits

_SPLITS = {benchmark.name: benchmark.splits for benchmark in BENCHMARKS}
_OR = "\n                 or: "


def print_prepared_splits() -> None:
    """Print a table of the prepared splits, or how to prepare some.

    Raises:
        LmmsEgoplanError: This version does not read a split.
    """
    overview = _Overview()
    for name, split in prepared_splits():
        summary = load_summary(name, split)
        if summary is not None:
            overview.add(name, split, summary)
    if overview.table.row_count:
        typer.echo(
            f"Prepared in {data_root()} (LMMS_EGOPLAN_DATA sets the folder), each split "
            "in <benchmark>/<split>:"
        )
        Console().print(overview.table)
        if overview.own:
            overview.remarks.append(f"Not the published questions: {', '.join(overview.own)}.")
        for remark in overview.remarks:
            typer.echo(remark)
    else:
        commands = [f"lmms-egoplan data prepare {name} --help" for name in _SPLITS]
        typer.echo(f"Nothing is prepared in {data_root()} (LMMS_EGOPLAN_DATA sets the folder).")
        typer.echo(f"Prepare a benchmark: {_OR.join(commands)}")
    if overview.unreadable:
        raise LmmsEgoplanError("\n".join(overview.unreadable))


def _empty_table() -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for title in ("benchmark", "split"):
        table.add_column(title, no_wrap=True, overflow="fold")
    for title in ("prepared", "of file", "missing", "official"):
        table.add_column(title, justify="right")
    table.add_column("time (UTC)", no_wrap=True, overflow="fold")
    return table


@dataclass
class _Overview:
    """The overview that `print_prepared_splits` prints.

    Attributes:
        table: One row for each prepared split.
        remarks: Lines below the table.
        own: Splits with other questions than the published ones.
        unreadable: Errors of splits that this version does not read.
    """

    table: Table = field(default_factory=_empty_table)
    remarks: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def add(self, name: str, split: str, summary: dict[str, Any]) -> None:
        """Add the prepared split of a benchmark, or of another folder of this form."""
        official: int | str = "n/a"
        splits = _SPLITS.get(name)
        if splits is not None:
            substitute = splits.substitute(summary)
            if substitute:
                self.remarks.append(f"{name}/{split}: {substitute}.")
            elif summary.get("question_set") == OWN:
                self.own.append(f"{name}/{split}")
            else:
                official = splits.official.get(split, "n/a")
            try:
                splits.check(split, summary)
            except LmmsEgoplanError as error:
                self.unreadable.append(str(error))
        prepared = summary["questions"]
        size = summary["split_size"]
        self.table.add_row(
            name,
            split,
            str(prepared),
            str(size),
            str(size - prepared),
            str(official),
            _utc(summary["prepared"]),
        )


def _utc(text: str) -> str:
    """Format a summary's time to the minute; return other texts unchanged."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    if time.tzinfo is not None:
        time = time.astimezone(timezone.utc)
    return f"{time:%Y-%m-%d %H:%M}"
