"""Print the scores of plans from any source."""

from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.classifier import NO_CLASSIFIER

# Titles of the measures, in the order in which they are printed.
_MEASURES = {
    "lcs": "LCS",
    "lcs_norm": "normalised",
    "lcs_norm_gold_2": "normalised, gold plan 2",
    "lcs_norm_best": "normalised, better of the two",
    "lcs_parsed": "LCS, parsed",
    "lcs_norm_parsed": "normalised, parsed",
    "form_validity": "valid form",
    "plan_length": "steps",
    "bleurt_correct": "called correct",
    "correct": "correct (people)",
    "commonsense": "commonsense (people)",
}
# Measures that are also printed for every group.
_MEASURES_BY_GROUP = (
    "lcs",
    "lcs_norm",
    "lcs_norm_gold_2",
    "lcs_norm_best",
    "lcs_norm_parsed",
    "correct",
)
# Titles of the groupings, in the order in which they are printed.
_GROUPINGS = {
    "model": "model",
    "setting": "setting",
    "length": "gold steps",
    "activity_type": "activity type",
}
# Remarks on numbers of plans. Each is printed if its number is not 0.
_REMARKS = {
    "empty": "Empty plans, which score 0",
    "ends_in_thought": "Empty because the reply ends inside a thought",
    "unparsed": "Plans without a step in the parsed reading",
    "repeated_ids": "Plans with a duplicate id",
}


def print_scores(summary: Mapping[str, Any]) -> None:
    """Print the table of all plans, the table of groups, remarks, and the two models."""
    Console().print(_table_of_all(summary), _table_of_groups(summary))
    for name, remark in _REMARKS.items():
        if summary[name]:
            typer.echo(f"{remark}: {summary[name]}")
    typer.echo(f"Encoder: {summary['encoder']}")
    typer.echo(f"Classifier: {summary['classifier'] or NO_CLASSIFIER}")


def _table_of_all(summary: Mapping[str, Any]) -> Table:
    """List every measure that is defined for some plan."""
    table = Table("all plans", Column("", justify="right", no_wrap=True))
    table.add_row("plans", str(summary["plans"]))
    for name, title in _MEASURES.items():
        if summary[name] is None:
            continue
        if name in summary["labelled"]:
            title = f"{title}, of {summary['labelled'][name]}"
        table.add_row(title, _cell(summary[name]))
    return table


def _table_of_groups(summary: Mapping[str, Any]) -> Table:
    """List the main measures of every group of plans."""
    measures = [name for name in _MEASURES_BY_GROUP if summary[name] is not None]
    titles = ["plans", *(_MEASURES[name] for name in measures)]
    table = Table(Column("by", no_wrap=True), *(Column(title, justify="right") for title in titles))
    for grouping, title in _GROUPINGS.items():
        groups = summary.get(f"by_{grouping}", {})
        if groups:
            table.add_row(title)
        for group, values in groups.items():
            cells = [_cell(values[name]) for name in measures]
            table.add_row(f"  {group}", str(values["plans"]), *cells)
        table.add_section()
    return table


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}"
