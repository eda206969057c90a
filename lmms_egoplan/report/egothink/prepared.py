"""Print what ``data prepare egothink`` wrote, next to the paper's counts."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES
from lmms_egoplan.benchmarks.egothink.prepare import LENGTH_TOLERANCE
from lmms_egoplan.prepared_counts import print_dimensions, print_question_sets
from lmms_egoplan.storage import split_dir


def print_prepared(all_summaries: Sequence[Mapping[str, Any]]) -> None:
    """Print the counts of each dimension, and the images with marks.

    Args:
        all_summaries: Summaries of the dimensions, then of the splits with marks.
    """
    summaries = all_summaries[: len(DIMENSION_NAMES)]
    marked = all_summaries[len(DIMENSION_NAMES) :]
    print_dimensions(summaries)
    print_question_sets(*summaries)
    questions = sum(summary["questions"] for summary in summaries)
    folder = split_dir("egothink", summaries[0]["split"]).parent
    typer.echo(
        "Words: mean per question and per answer. They match Table 4 of the paper if within "
        f"{LENGTH_TOLERANCE}.\n"
        "Question types: by the first interrogative word; questions without one are one type. The "
        "paper does not state its rule. Concepts, scenes and videos of Table 4 cannot be counted, "
        "because the records do not name them.\n"
        f"{questions} questions from {summaries[0]['source']}\n"
        f"Written to {folder}"
    )
    for summary in marked:
        typer.echo(
            f"{summary['split']}: marks drawn on {summary['questions']} of "
            f"{summary['split_size']} images"
        )
