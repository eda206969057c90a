"""What is written of every database, whichever benchmark it is of."""

from dataclasses import asdict, astuple, fields
from pathlib import Path

from lmms_egoplan.annotation.agreement import Agreement, agreements
from lmms_egoplan.annotation.flow import ExportedFile, Flow, Labelled
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.report.labelled import write_folder
from lmms_egoplan.text import csv_text


def export(flow: Flow, labelled: Labelled, out: Path) -> list[str]:
    """Write a database's labels into a folder: the benchmark's own files, ``labels.jsonl`` and ``agreement.csv``.

    What an earlier export wrote there goes.

    Returns:
        Lines that tell what was written and what was left out.

    Raises:
        LmmsEgoplanError: there is no label yet, or the folder holds something else.
        OSError: the folder cannot be written.
    """
    if not (labelled.labels or labelled.skips):
        raise LmmsEgoplanError("there are no labels yet")
    exported = flow.export(labelled)
    lines, files = [*exported.lines], {**exported.files}
    labels = [asdict(label) | {"about": item.hidden} for item in labelled.items for label in labelled.counting(item)]
    files["labels.jsonl"] = ExportedFile(json_lines(labels), "every label that counts")
    if labelled.skips:
        files["skipped.jsonl"] = ExportedFile(json_lines(map(asdict, labelled.skips)), "skipped items")
        skipped = len({skip.item for skip in labelled.skips})
        lines.append(f"Skipped by somebody: {skipped} items, {len(labelled.skips)} times")
    header = [field.name for field in fields(Agreement)]
    rows = [["n/a" if value is None else value for value in astuple(row)] for row in agreements(flow, labelled)]
    files["agreement.csv"] = ExportedFile(csv_text([header, *rows]), "agreement")
    write_folder(out, flow.name, {name: file.text for name, file in files.items()})
    return [*lines, *(f"{out / name}: {file.purpose}" for name, file in files.items())]
