"""``lmms-egoplan audit``: find a benchmark's questions in a model's training data."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder

audit_questions = typer.Typer()


@audit_questions.command("egoplan")
@audit_questions.command("egoplan_bench2")
@audit_questions.command("egointent")
def audit(
    context: typer.Context,
    training: Annotated[
        list[Path], typer.Option(metavar="FILES", help="Files of the training data.")
    ],
    out: OutFolder,
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="FILES", help="More files of `--training`.")
    ] = None,
) -> None:
    """Find a benchmark's prepared questions in a model's training data, by video, time and text.

    The layout of each file is recognised: narrations of EPIC-KITCHENS (CSV) and Ego4D
    (`narration.json`), Ego4D Goal-Step, EgoPlan-IT, conversations, questions with answers, or a
    list of videos: one id or path per line, or CSV, JSON or JSON Lines with `video_id` and, if
    known, `start_sec` and `end_sec`.

    The degrees of overlap, most severe first:

    - the time that a model is shown, or the answer's action
    - a text with the same goal and action, up to spelling
    - the same video at other times
    - the same video, if the training data have no times
    - none: the question is clean

    `overlap.csv` has a line for each question. `lmms-egoplan report RUNS DIR` shows the scores by
    degree.

    Example: `lmms-egoplan audit egoplan --training EPIC_100_train.csv EgoPlan_IT.json --out audit`
    """
    from lmms_egoplan.overlap.audit import FILES, audit_benchmark

    benchmark = str(context.info_name)
    with output_folder(out, f"audit {benchmark}", FILES):
        audit_benchmark(benchmark, [*training, *(more or [])], out)
