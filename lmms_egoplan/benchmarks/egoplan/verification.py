"""Read the results of human verification (sec. 3.3, App. A.3): files of ``annotate export``."""

import csv
from collections.abc import Hashable, Sequence
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.records import LIST_KEYS, load_list
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text

# Files of the kept and the rejected questions.
KEPT = "EgoPlan_validation.json"
REJECTED = "rejected.csv"
# Reasons in the file of rejected questions.
OPEN = "not all labels yet"
SERVED = "served for the qualification"
SKIPPED = "skipped"
DISAGREE = "annotators disagree"
OTHER = "annotators agree on another choice than the record"
LEAD_REJECTS = "the lead chose another choice than the record"
LEAD_SKIPS = "the lead skipped it"
# Key of kept questions on which the lead decided, with its value.
DECIDED = "verification"
LEAD_KEEPS = "the lead chose the record"

Verified = dict[tuple[Hashable, ...], str]
"""Result of a question's verification, by its id and right letter.

It is `AGREED`, or the reason for the question's rejection.
"""
AGREED = "agree with the record"


def read_checked(folders: Sequence[Path]) -> Verified:
    """Read the results for the questions that enough people have answered.

    Later folders override earlier ones.

    Raises:
        LmmsEgoplanError: A file cannot be read or is malformed. The message names the file or its
            folder.
    """
    checked: Verified = {}
    for folder in folders:
        try:
            checked |= _read_kept(folder / KEPT)
            checked |= _read_rejected(folder / REJECTED)
        except (AttributeError, KeyError, TypeError, ValueError, csv.Error) as error:
            raise LmmsEgoplanError(
                f"{folder}: {KEPT} or {REJECTED} does not have the form that annotate export "
                f"writes ({type(error).__name__}: {error}); export the labels again"
            ) from error
    return checked


def _read_kept(path: Path) -> Verified:
    """Read the file of the kept questions, if there is one."""
    verified: Verified = {}
    if path.is_file():
        for record in load_list(path, LIST_KEYS["val"]):
            key = int(record["sample_id"]), str(record["golden_choice_idx"])
            verified[key] = record.get(DECIDED, AGREED)
    return verified


def _read_rejected(path: Path) -> Verified:
    """Read the file of the rejected questions, if there is one.

    Questions without all labels are skipped.
    """
    rejected: Verified = {}
    if path.is_file():
        for row in csv.DictReader(read_text(path).splitlines()):
            reason = row["reason"].partition(":")[0]
            if reason not in (OPEN, SERVED):
                rejected[int(row["sample_id"]), row["record"]] = reason
    return rejected
