"""People's verification of questions: the files that ``annotate export`` writes, and reading them."""

import csv
from collections.abc import Hashable, Sequence
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.records import LIST_KEYS, load_list
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text

# The files of kept and rejected questions.
KEPT, REJECTED = "EgoPlan_validation.json", "rejected.csv"
# Reasons in the second.
OPEN = "not all labels yet"
SERVED = "served for the qualification"
SKIPPED = "skipped"
DISAGREE = "annotators disagree"
OTHER = "annotators agree on another choice than the record"

Checked = dict[tuple[Hashable, ...], str]
"""By id and right letter of a question, the result of its verification: `AGREED`, or the reason for its rejection."""
AGREED = "agree with the record"


def read_checked(folders: Sequence[Path]) -> Checked:
    """Read the results for the questions that enough people have answered; the last folder counts.

    Raises:
        LmmsEgoplanError: a file cannot be read, or holds something else; names it.
    """
    checked: Checked = {}
    for folder in folders:
        try:
            if (folder / KEPT).is_file():
                records = load_list(folder / KEPT, LIST_KEYS["val"])
                checked |= {(int(record["sample_id"]), str(record["golden_choice_idx"])): AGREED for record in records}
            if (folder / REJECTED).is_file():
                for row in csv.DictReader(read_text(folder / REJECTED).splitlines()):
                    reason = row["reason"].partition(":")[0]
                    if reason not in (OPEN, SERVED):
                        checked[int(row["sample_id"]), row["record"]] = reason
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LmmsEgoplanError(
                f"{folder}: {KEPT} or {REJECTED} is not as annotate export writes it: {type(error).__name__}: {error}. "
                "Export the labels again"
            ) from error
    return checked
