"""What is written of every database, whichever benchmark it is of."""

import json
from dataclasses import asdict, astuple, fields
from pathlib import Path

from lmms_egoplan.annotation.agreement import Agreement, agreements
from lmms_egoplan.annotation.flow import ExportedFile, Flow, Labelled
from lmms_egoplan.errors import LmmsEgoplanError
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
    made = flow.export(labelled)
    files = {
        **made.files,
        "labels.jsonl": ExportedFile(_label_lines(labelled), "every label that counts"),
        **({"skipped.jsonl": ExportedFile(_skip_lines(labelled), "skipped items")} if labelled.skips else {}),
        "agreement.csv": ExportedFile(_agreement_rows(flow, labelled), "agreement"),
    }
    write_folder(out, flow.name, {name: file.text for name, file in files.items()})
    skipped = len({skip.item for skip in labelled.skips})
    skips = [f"Skipped by somebody: {skipped} items, {len(labelled.skips)} times"] if skipped else []
    return [*made.lines, *skips, *(f"{out / name}: {file.purpose}" for name, file in files.items())]


def _label_lines(labelled: Labelled) -> str:
    lines = [asdict(label) | {"about": item.hidden} for item in labelled.items for label in labelled.counting(item)]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def _skip_lines(labelled: Labelled) -> str:
    return "".join(f"{json.dumps(asdict(skip), ensure_ascii=False)}\n" for skip in labelled.skips)


def _agreement_rows(flow: Flow, labelled: Labelled) -> str:
    header = [field.name for field in fields(Agreement)]
    rows = [["n/a" if value is None else value for value in astuple(found)] for found in agreements(flow, labelled)]
    return csv_text([header, *rows])
