"""``lmms-egoplan audit``: find a benchmark's questions in a model's training data."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.overlap.matching import audit as audited
from lmms_egoplan.overlap.training_files import Item, items_of, read_training
from lmms_egoplan.report.overlap import CSV, DEGREES, JSON, Audit
from lmms_egoplan.report.samples import MARK, write_folder
from lmms_egoplan.text import csv_text, join_list

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
    with output_folder(out, f"audit {context.info_name}", [MARK, CSV, JSON]):
        prepared = next(data for data in SPLITS if data.benchmark == context.info_name)
        split = next(iter(prepared.official))
        docs = list(prepared.load(split))
        questions = [
            next(items_of(doc, str(doc.get("sample_id", doc.get("step_id"))))) for doc in docs
        ]
        items: list[Item] = []
        for path in dict.fromkeys([*training, *(more or [])]):
            items += read_training(path)
        trained_videos = {item.video for item in items if item.video}
        unmatched = sorted(trained_videos - {question.video for question in questions})
        examples = f", such as {join_list(unmatched, 3)}" if unmatched else ""
        typer.echo(
            f"{len(items):,} training records. Videos outside the benchmark: "
            f"{len(unmatched):,}{examples}"
        )
        typer.echo(f"{sum(item.span is None for item in items):,} training records without times")
        unread = [item.where for item in items if item.question and not item.action]
        if unread:
            typer.echo(
                f"Questions without an answer, whose texts are not compared: {join_list(unread, 3)}"
            )
        rows = [
            {"video_id": doc["video_id"], **row}
            for doc, row in zip(docs, audited(questions, items), strict=True)
        ]
        degrees = {f"{row['video_id']} {row['sample_id']}": row["degree"] for row in rows}
        audited_split = Audit(fingerprint=prepared.fingerprint(split), questions=degrees)
        files = {
            CSV: csv_text([rows[0], *(row.values() for row in rows)]),
            JSON: audited_split.model_dump_json(indent=1),
        }
        write_folder(out, prepared.benchmark, files)
        counts = Counter(degrees.values())
        for degree in DEGREES[:-1]:
            typer.echo(f"{counts[degree]:7,} {degree}")
        typer.echo(
            f"{len(rows):,} questions of {prepared.title.format(split)} audited. Written to "
            f"{out / CSV}"
        )
