"""Print a classifier's agreement with people, above the paper's Table 5."""

from collections.abc import Mapping
from typing import Any, Literal

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.classifier_agreement import SourceScores
from lmms_egoplan.report.published import load_table


def table_5() -> dict[str, dict[str, Mapping[str, Any]]]:
    """Read Table 5: the rows of each classifier by the model that wrote the plans.

    A row has Matthews' correlation on val, and accuracies in percent.
    """
    table: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in load_table("actplan", "table5").rows:
        table.setdefault(str(row["model"]), {})[str(row["vlm"])] = row
    return table


def print_agreement(
    name: str, by_model: Mapping[str, SourceScores], split: Literal["val", "test"]
) -> None:
    """Print a classifier's scores on each model's plans, above the paper's."""
    scores = by_model.values()
    table = Table(Column("", no_wrap=True), *by_model)
    table.add_row("plans", *(str(score.plans) for score in scores))
    table.add_row(f"{name}: accuracy", *(f"{score.accuracy:.1%}" for score in scores))
    table.add_row("majority", *(f"{score.majority:.1%}" for score in scores))
    table.add_row(
        "right if equal to a gold plan", *(f"{score.equal_to_gold:.1%}" for score in scores)
    )
    table.add_row(
        "right if equal to the pair's gold plan",
        *(f"{score.equal_to_paired_gold:.1%}" for score in scores),
    )
    table.add_row(
        f"{name}: MCC", *("n/a" if score.mcc is None else f"{score.mcc:.3f}" for score in scores)
    )
    table.add_row(
        "called correct: right, wrong",
        *(f"{score.true_correct}, {score.false_correct}" for score in scores),
    )
    table.add_row(
        "called wrong: right, wrong",
        *(f"{score.true_wrong}, {score.false_wrong}" for score in scores),
    )
    table.add_row("pairs cut", *(str(score.truncated) for score in scores), end_section=True)
    for paper, rows in table_5().items():
        published = [rows[source] for source in by_model]
        accuracies = [f"{row[f'{split}_acc']}%" for row in published]
        table.add_row(f"paper's {paper}: accuracy", *accuracies)
        if split == "val":
            table.add_row(f"paper's {paper}: MCC", *(f"{row['mcc']:.3f}" for row in published))
    Console().print(table)
    if any(score.mcc is None for score in scores):
        typer.echo("MCC n/a: all labels or all verdicts are the same")
