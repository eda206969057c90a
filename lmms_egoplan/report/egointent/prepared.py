"""Print what ``data prepare egointent`` wrote, next to the paper's counts."""

from typing import Any

import typer

from lmms_egoplan.benchmarks.egointent.prepare import LABELS
from lmms_egoplan.prepared_counts import print_summary


def print_prepared(summary: dict[str, Any], *, leakage: bool) -> None:
    """Print the keys of the fields, the counts of the prepared data, and what they lack.

    Args:
        summary: Summary of the split.
        leakage: Whether the split is ``leakage``.
    """
    typer.echo("Fields, the keys they were read from, and the number of records with each key:")
    for line in summary["mapping"]:
        typer.echo(f"  {line}")
    print_summary(summary, "steps", LABELS)
    if "categories" in summary["counts"]:
        typer.echo(
            "These are Goal-Step steps, not EgoIntent's: their scores are not comparable "
            "with the paper's."
        )
    if leakage:
        typer.echo(f"Skipped, without a frame after the cut: {summary['without_leakage']} steps")
    if summary["unverified"]:
        typer.echo(f"Steps with unverified labels: {summary['unverified']}")
