"""What is written of every database, whichever benchmark it is of."""

import json
from dataclasses import asdict, astuple, fields
from pathlib import Path

from lmms_egoplan.annotation.agreement import Agreement, agreements
from lmms_egoplan.annotation.flow import Flow, Labelled
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.labelled import MARK
from lmms_egoplan.storage import write_whole
from lmms_egoplan.text import csv_text


def export(flow: Flow, labelled: Labelled, out: Path) -> list[str]:
    """Write a database's labels into a folder: the benchmark's own files, ``labels.jsonl`` and ``agreement.csv``.

    Returns:
        Lines that tell what was written and what was left out.

    Raises:
        LmmsEgoplanError: there is no label yet, or the benchmark's own files cannot be made.
        OSError: the folder cannot be written.
    """
    if not labelled.labels:
        raise LmmsEgoplanError("there are no labels yet")
    lines = flow.export(labelled, out)
    hidden = {item.id: item.hidden for item in labelled.items}
    write_whole(
        out / "labels.jsonl",
        "".join(
            f"{json.dumps(asdict(label) | {'about': hidden[item]}, ensure_ascii=False)}\n"
            for item, labels in labelled.labels.items()
            for label in labels
        ),
    )
    # Tells the report whose labels the folder holds.
    write_whole(out / MARK, json.dumps({"benchmark": flow.name}) + "\n")
    header = [field.name for field in fields(Agreement)]
    rows = [["n/a" if value is None else value for value in astuple(found)] for found in agreements(flow, labelled)]
    write_whole(out / "agreement.csv", csv_text([header, *rows]))
    return [*lines, f"{out / 'labels.jsonl'}: every label that counts", f"{out / 'agreement.csv'}: agreement"]
