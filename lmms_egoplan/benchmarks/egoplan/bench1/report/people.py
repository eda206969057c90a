"""What people said of questions, as ``annotate export`` wrote it."""

import csv
from collections.abc import Sequence
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.bench1.records import LIST_KEYS
from lmms_egoplan.benchmarks.egoplan.labels import KEPT, OPEN, REJECTED, SERVED
from lmms_egoplan.benchmarks.egoplan.records import load_list
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text

Checked = dict[tuple[int, str], str]
"""By id and right letter of a question, what came out when people verified it."""
AGREED = "agree with the record"


def read_checked(folders: Sequence[Path]) -> Checked:
    """What came out for the questions that enough people have answered; the last folder counts.

    Raises:
        LmmsEgoplanError: a file cannot be read, or holds something else; names it.
    """
    found: Checked = {}
    for folder in folders:
        try:
            if (folder / KEPT).is_file():
                records = load_list(folder / KEPT, LIST_KEYS["val"])
                found |= {(int(record["sample_id"]), str(record["golden_choice_idx"])): AGREED for record in records}
            if (folder / REJECTED).is_file():
                for row in csv.DictReader(read_text(folder / REJECTED).splitlines()):
                    reason = row["reason"].partition(":")[0]
                    if reason not in (OPEN, SERVED):
                        found[int(row["sample_id"]), row["record"]] = reason
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LmmsEgoplanError(
                f"{folder}: {KEPT} or {REJECTED} is not as annotate export writes it: {type(error).__name__}: {error}. "
                "Export the labels again"
            ) from error
    return found
