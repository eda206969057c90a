"""Print what ``data prepare actplan`` wrote, next to the paper's counts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from lmms_egoplan.benchmarks.actplan.prepare import LABELS
from lmms_egoplan.prepared_counts import print_counts, print_question_sets
from lmms_egoplan.storage import split_dir, summary_path

# Most instances to list on one line.
_MOST_LISTED = 5


def print_prepared(summary: Mapping[str, Any]) -> None:
    """Print the counts of the prepared data, and what they lack."""
    print_counts(summary["counts"], LABELS, "source", "source")
    print_question_sets(summary)
    _print_gaps(summary)


def _print_gaps(summary: Mapping[str, Any]) -> None:
    """Print what prepared data lack, and where they are."""
    path = summary_path(summary["benchmark"], summary["split"])
    typer.echo(
        f"Gold plan 1 is missing in {summary['without_gold_plan_1']} of {summary['questions']} "
        f"prepared instances, gold plan 2 in {summary['without_gold_plan_2']}. Mean steps count "
        "gold plan 1; the paper does not say which one it counts."
    )
    if summary["missing"]:
        skipped = summary["split_size"] - summary["questions"]
        typer.echo(
            f"Skipped: {skipped} instances ({len(summary['missing'])} folders; {path} lists the "
            f"reasons under missing). Results will cover {summary['questions']} of "
            f"{summary['split_size']} instances."
        )
    if summary["images_outside"]:
        _print_unusual_images(summary, path)
    folder = split_dir(summary["benchmark"], summary["split"])
    typer.echo(f"Written to {folder}, with Fig. 4 (figure_4.png, .csv)")


def _print_unusual_images(summary: Mapping[str, Any], path: Path) -> None:
    """Print the instances with another number of images than the paper states."""
    instances = summary["images_outside"]
    examples = ", ".join(
        f"{instance['folder']} ({instance['images']})" for instance in instances[:_MOST_LISTED]
    )
    num_more = len(instances) - _MOST_LISTED
    if num_more > 0:
        examples += f" and {num_more} more, all listed under images_outside in {path}"
    typer.echo(
        f"The paper states 2 to 5 images per instance. {len(instances)} of {summary['split_size']} "
        f"instances differ: {examples}. Only instances without any image are skipped for this."
    )
