"""Print what ``data prepare egoplan`` and ``egoplan_bench2`` wrote, and count the questions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import typer

from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.footage.clips import FITS
from lmms_egoplan.benchmarks.egoplan.footage.copies import LISTS
from lmms_egoplan.benchmarks.egoplan.statistics import (
    COUNTS,
    Statistics,
    statistics,
    texts_of,
    texts_of_row,
)
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.prepared_counts import print_summary
from lmms_egoplan.report.egoplan.statistics import COLUMNS
from lmms_egoplan.storage import load_summary
from lmms_egoplan.text import join_list


def print_prepared(summary: dict[str, Any]) -> None:
    """Print the counts of the prepared data, what they lack, and how the media fit."""
    if summary.get("copy"):
        _print_copy(summary["copy"], summary["split_size"])
    print_summary(summary, "questions", dict(zip(COUNTS, COLUMNS[1:], strict=True)))
    if "clips" in summary:
        typer.echo(f"Media: {summary['media']}. Results report this as media.")
        for fit, count in summary["clips"].items():
            typer.echo(f"  {count}: {FITS[fit]}")
    for warning in summary.get("warnings", ()):
        typer.echo(f"Warning: {warning}", err=True)


def _print_copy(copy: Mapping[str, Any], num_questions: int) -> None:
    """Print how the rows of a public copy match the questions."""
    typer.echo(
        f"Copy {copy['name']}: {copy['matched']:,} of {num_questions:,} questions match one of "
        f"{copy['rows']:,} rows. The prepared summary.json lists all differences."
    )
    for kind in LISTS:
        if copy[kind]:
            typer.echo(f"  {kind} ({len(copy[kind])}): {_first_five(copy[kind])}")
    observations = copy.get("observations")
    if observations:
        different = observations["different"]
        ids = f": {_first_five(different)}" if different else ""
        typer.echo(
            f"  observations compared with the videos: {observations['compared']}; "
            f"{len(observations['other_size'])} have another size, {len(different)} differ{ids}"
        )


def _first_five(values: Sequence[Any]) -> str:
    return join_list([str(value) for value in values], most=5)


def count_splits(annotations: Path, split: Literal["val", "test"]) -> dict[str, Statistics]:
    """Count the questions of a split, and of both if the other one is prepared completely."""
    questions = [texts_of(record) for record in records.read_annotations(annotations, split)]
    counted = {f"EgoPlan-{split.capitalize()}, counted": statistics(questions)}
    other = "test" if split == "val" else "val"
    summary = load_summary("egoplan", other) or {}
    if summary.get("questions", 0) < summary.get("split_size", 0):
        typer.echo(f"Both splits are not counted together: questions of {other} were skipped")
    elif summary:
        questions += [texts_of_row(row) for row in EGOPLAN.load(other)]
        counted["EgoPlan-Bench, counted"] = statistics(questions)
    return counted
