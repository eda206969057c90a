"""Toy's subcommand of ``lmms-egoplan``."""

from pathlib import Path
from typing import Annotated

import typer


def prepare(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder with `questions.jsonl` and the pictures that it names."
        ),
    ],
) -> None:
    """Prepare the questions and pictures of Toy.

    Example: `lmms-egoplan data prepare toy DIR`
    """
    from lmms_egoplan.benchmarks.toy.prepare import prepare_toy
    from lmms_egoplan.prepared_counts import print_question_sets
    from lmms_egoplan.storage import split_dir

    summary = prepare_toy(folder)
    print_question_sets(summary)
    typer.echo(f"{summary['questions']} questions. Written to {split_dir('toy', 'test')}")
