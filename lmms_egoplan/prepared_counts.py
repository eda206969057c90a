"""Print prepared counts next to the paper's, and write figures of prepared data."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.coverage import BY_COUNTS, OFFICIAL, OWN
from lmms_egoplan.files import write_whole
from lmms_egoplan.storage import split_dir, summary_path

_QUESTION_SETS = {
    OFFICIAL: "The records are the published ones.",
    BY_COUNTS: (
        "The numbers are the published ones. The records were not compared with the published ones."
    ),
    OWN: (
        "The records are not the published ones. Coverage is the share of these. Results "
        "name their origin, if known."
    ),
}


def print_summary(summary: dict[str, Any], unit: str, labels: Mapping[str, str]) -> None:
    """Print the summary of a split of videos.

    Args:
        unit: plural noun for the counts.
        labels: see `print_counts`.
    """
    print_counts(summary["counts"], labels, "annotations", "file")
    print_question_sets(summary)
    if summary["missing"]:
        state = "missing or damaged" if summary.get("verified") else "missing"
        wanted = summary.get("copy", {}).get("matched", summary["split_size"])
        typer.echo(
            f"Skipped {wanted - summary['questions']} {unit}: frames of "
            f"{len(summary['missing'])} videos are {state}. They are listed under missing in "
            f"{summary_path(summary['benchmark'], summary['split'])}\n"
            f"Results will cover {summary['questions']} of {summary['split_size']} {unit}."
        )
    if summary.get("verified"):
        typer.echo(
            f"Verified {summary['questions']} {unit}: decoded every frame that a task may read."
        )
    typer.echo(f"Written to {split_dir(summary['benchmark'], summary['split'])}")


def print_question_sets(*summaries: Mapping[str, Any]) -> None:
    """Print what results over splits will state about their questions, and why."""
    names = [summary["question_set"] for summary in summaries]
    for name in dict.fromkeys(names):
        splits = [summary["split"] for summary in summaries if summary["question_set"] == name]
        part = "" if len(splits) == len(names) else f" ({', '.join(splits)})"
        typer.echo(f"Question set: {name}{part}. {_QUESTION_SETS[name]}")


def print_counts(
    counts: dict[str, dict[str, Any]], labels: Mapping[str, str], key: str, origin: str
) -> None:
    """Print the prepared counts next to the source's and the paper's.

    Args:
        counts: see `storage.compare_counts`.
        labels: label of each count, by name. Default: the name.
        key: the source's key in `counts`.
        origin: noun for the source, such as ``file``.
    """
    table = Table(
        "",
        Column("prepared", no_wrap=True),
        f"in the {origin}",
        "in the paper",
        f"{origin} as in the paper",
        pad_edge=False,
    )
    for name, count in counts.items():
        table.add_row(
            labels.get(name, name),
            _number(count["prepared"]),
            _number(count[key]),
            _number(count["paper"]),
            _agreement(count[key], count["paper"], matches=count["matches"]),
        )
    Console().print(table)


def _number(number: float | None) -> str:
    return "" if number is None else str(number)


def _agreement(number: float | None, printed: float | None, *, matches: bool | None) -> str:
    """Return whether a count is the paper's; "" if the paper prints none."""
    if matches is None:
        return ""
    if matches:
        return "yes"
    if number is None or printed is None:
        return "no"
    return f"no, {number - printed:+g}"


def write_figures(summary: Mapping[str, Any], files: Mapping[str, str | bytes]) -> None:
    """Write figures and their numbers next to a prepared split, and print where.

    Args:
        summary: summary of the split, which has just been prepared.
        files: content by file name.
    """
    folder = split_dir(summary["benchmark"], summary["split"]) / "figures"
    for name, content in files.items():
        write_whole(folder / name, content)
    typer.echo(f"Figures of all records, also skipped ones, in {folder}: {', '.join(files)}")


def png_of(drawing: Any) -> bytes:
    """Return a matplotlib figure as a PNG image."""
    image = BytesIO()
    drawing.savefig(image, dpi=130, metadata={"Software": None})
    return image.getvalue()


def print_dimensions(summaries: Sequence[Mapping[str, Any]]) -> None:
    """Print a row for each dimension.

    It has the counts of `compare_with_table_4`, with those of the paper in parentheses.
    """
    labels = {name: name.replace("_", " ") for name in summaries[0]["counts"]}
    columns: list[Column | str] = [Column("dimension", no_wrap=True)]
    for label in labels.values():
        columns.append(f"{label} (paper)")
    table = Table(*columns, "as in the paper", pad_edge=False)
    for summary in summaries:
        cells: list[str] = []
        differing: list[str] = []
        for name, label in labels.items():
            count = summary["counts"][name]
            digits = ".2f" if "words" in name else ""
            cells.append(f"{count['prepared']:{digits}} ({count['paper']:{digits}})")
            if not count["matches"]:
                differing.append(label)
        verdict = f"no: {', '.join(differing)}" if differing else "yes"
        table.add_row(summary["split"], *cells, verdict)
    Console().print(table)
