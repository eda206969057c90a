"""``lmms-egoplan data prepare egothink``: the twelve dimensions from their questions and images."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.storage import split_dir


def prepare(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="`hub`, or a folder with `Object/existence/annotations.json`, `Object/existence/images/1.jpg` and so "
            "on. Write `./hub` for a folder of that name.",
        ),
    ],
) -> None:
    """Prepare EgoThink's twelve dimensions from its questions and images.

    Example: `lmms-egoplan data prepare egothink hub`

    - `hub` is the dataset EgoThink/EgoThink on the Hugging Face hub.
    - The folder is that of a clone of https://github.com/AdaCheng/EgoThink
    """
    from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink

    summaries = prepare_egothink(source)
    _print_dimensions(summaries)


def _print_dimensions(summaries: list[dict[str, Any]]) -> None:
    """The summaries, a dimension each."""
    from lmms_egoplan.benchmarks.egothink.prepare import LENGTH_TOLERANCE

    forms = {
        "instances": "{prepared} ({paper})",
        "question_words": "{prepared:.2f} ({paper:.2f})",
        "answer_words": "{prepared:.2f} ({paper:.2f})",
        "question_types": "{prepared} ({paper})",
    }
    labels = {name: name.replace("_", " ") for name in forms}
    dimension = Column("dimension", no_wrap=True)
    table = Table(dimension, *(f"{label} (paper)" for label in labels.values()), "as in the paper", pad_edge=False)
    for summary in summaries:
        counts = summary["counts"]
        differing = [labels[name] for name in labels if not counts[name]["matches"]]
        cells = (form.format(**counts[name]) for name, form in forms.items())
        table.add_row(summary["split"], *cells, f"no: {', '.join(differing)}" if differing else "yes")
    Console().print(table)
    questions = sum(summary["questions"] for summary in summaries)
    typer.echo(
        f"Words: mean per question and per answer, as in the paper's Table 4 if within {LENGTH_TOLERANCE}.\n"
        "Question types: by the first interrogative word; all questions without one are one type. The paper does not "
        "print its rule. Table 4's concepts, scenes and videos cannot be counted: the records do not name them.\n"
        f"{questions} questions from {summaries[0]['source']}\n"
        f"Written to {split_dir('egothink', summaries[0]['split']).parent}"
    )
