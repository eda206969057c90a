"""``lmms-egoplan audit BENCHMARK --training FILES``: find a benchmark's questions in a model's training data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.overlap.matching import audit as audited
from lmms_egoplan.overlap.training_files import Item, items_of, read_training
from lmms_egoplan.report.overlap import CSV, DEGREES, JSON
from lmms_egoplan.report.samples import write_folder
from lmms_egoplan.text import csv_text


def audit(
    context: typer.Context,
    training: Annotated[list[Path], typer.Option(metavar="FILES", help="Files of the training data.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the audit, an input of `report`.")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="FILES", help="More files of `--training`.")] = None,
    texts: Annotated[bool, typer.Option("--texts/--no-texts", help="Find near-duplicate texts.")] = True,
) -> None:
    """Find a benchmark's prepared questions in a model's training data, by video, time and text.

    The layout of each file is recognised: narrations of EPIC-KITCHENS (CSV) and Ego4D (`narration.json`), EgoVLP's
    segments, Ego4D Goal-Step, EgoPlan-IT, or a list of videos: one id or path per line, or CSV, JSON or JSON lines with
    `video_id` and, if known, `start_sec` and `end_sec`.

    The degrees of overlap, most severe first:

    - the time that a model is shown, or the answer's action
    - a text with nearly the same goal and action
    - the same video at other times
    - the same video, if the training data have no times
    - the same participant of EPIC-KITCHENS
    - none

    `overlap.csv` has a line for each question. `lmms-egoplan report RUNS DIR` shows the scores by degree.

    Example: `lmms-egoplan audit egoplan --training EPIC_100_train.csv EgoPlan_IT.json --out audit`
    """
    prepared = next(data for data in SPLITS if data.benchmark == context.info_name)
    split = next(iter(prepared.official))
    docs = list(prepared.load(split))
    questions = [next(items_of(doc, str(doc.get("sample_id", doc.get("step_id"))))) for doc in docs]
    videos, items = {question.video for question in questions}, list[Item]()
    for path in dict.fromkeys([*training, *(more or [])]):
        of_file = read_training(path)
        in_file = {item.video for item in of_file}
        counts = f"{len(of_file):,} records ({sum(item.span is None for item in of_file):,} without times)"
        unmatched = sorted(in_file - videos)
        example = f", such as {unmatched[0]}" if unmatched else ""
        typer.echo(f"{path}: {counts}; {len(in_file):,} videos, {len(unmatched):,} not in the benchmark{example}")
        items += of_file
    rows = audited(questions, items, with_texts=texts)
    rows = [row | {"video_id": doc["video_id"]} for row, doc in zip(rows, docs, strict=True)]
    degrees = {row["sample_id"]: [row["video_id"], row["degree"]] for row in rows}
    content = {"fingerprint": prepared.fingerprint(split), "questions": degrees}
    table = csv_text([rows[0], *(row.values() for row in rows)])
    write_folder(out, prepared.benchmark, {CSV: table, JSON: json.dumps(content, indent=1) + "\n"})
    for degree in DEGREES:
        ids = [row["sample_id"] for row in rows if row["degree"] == degree]
        typer.echo(f"{len(ids):7,} {degree}{f', such as {ids[0]}' if ids else ''}")
    typer.echo(f"{len(rows):,} questions of {prepared.title.format(split)} audited. Written to {out / CSV}")
