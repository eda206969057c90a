"""Recognise kinds of record files by their keys, for messages about a wrong input file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError


@dataclass(frozen=True)
class FileKind:
    """A kind of record files.

    Attributes:
        keys: Keys that identify the kind: its records have them all.
        name: Name in messages. ``{path}`` is the file's path.
        is_annotation: True if the file has the records of a dataset, which a command reads.
        judged: Name of the benchmark whose judged answers the file contains; "" if it has none.
    """

    keys: frozenset[str]
    name: str
    is_annotation: bool = False
    judged: str = ""


EGOPLAN_BENCH2_ANNOTATIONS = FileKind(
    keys=frozenset({"sample_id", "choice_a", "domain"}),
    name=(
        "EgoPlan-Bench2's annotation file, the input of `lmms-egoplan data prepare egoplan_bench2`"
    ),
    is_annotation=True,
)
EGOPLAN_ANNOTATIONS = FileKind(
    keys=frozenset({"sample_id", "choice_a"}),
    name="EgoPlan-Bench's annotation file, the input of `lmms-egoplan data prepare egoplan`",
    is_annotation=True,
)
EGOPLAN_INSTRUCTIONS = FileKind(
    keys=frozenset({"sample_id", "negative_answers"}),
    name="EgoPlan-IT, the data of `lmms-egoplan train egoplan`",
    is_annotation=True,
)
EGOTHINK_ANNOTATIONS = FileKind(
    keys=frozenset({"image_path", "question", "answer"}),
    name="EgoThink's annotation file, the input of `lmms-egoplan data prepare egothink`",
    is_annotation=True,
)
EGOTHINK_JUDGED_ANSWERS = FileKind(
    keys=frozenset({"id", "rating", "judge"}),
    name="judged answers to EgoThink's questions",
    judged="egothink",
)
EGOTHINK_ANSWERS = FileKind(
    keys=frozenset({"id", "answer"}),
    name=(
        "answers without ratings; judge them first: lmms-egoplan judge egothink {path} --out FILE"
    ),
)
EGOINTENT_JUDGED_ANSWERS = FileKind(
    keys=frozenset({"step_id", "judge_prompt"}),
    name="judged answers to EgoIntent's steps",
    judged="egointent",
)
EGOINTENT_ANNOTATIONS = FileKind(
    keys=frozenset({"step_id", "local_intent", "start_sec"}),
    name="EgoIntent's annotation file, the input of `lmms-egoplan data prepare egointent`",
    is_annotation=True,
)
EGOINTENT_ANSWERS = FileKind(
    keys=frozenset({"step_id"}),
    name=(
        "answers about EgoIntent's steps; judge them first: "
        "lmms-egoplan judge egointent {path} --out FILE"
    ),
)
GOALSTEP_ANNOTATIONS = FileKind(
    keys=frozenset({"goal_category", "segments"}),
    name="Ego4D Goal-Step's annotation file, the input of `lmms-egoplan data build egointent`",
    is_annotation=True,
)
ACTPLAN_ERROR_TYPES = FileKind(
    keys=frozenset({"id", "judge_model"}),
    name=(
        "types of errors in plans; pass `report` the folder that `lmms-egoplan judge actplan` wrote"
    ),
)
RESULTS = FileKind(
    keys=frozenset({"results"}),
    name="results of a run; restore its original file name, or pass its folder",
)
SAMPLES = FileKind(
    keys=frozenset({"doc_id"}),
    name="samples of a harness; pass their folder, or the results file next to them",
)

FILE_KINDS = (
    EGOPLAN_BENCH2_ANNOTATIONS,
    EGOPLAN_ANNOTATIONS,
    EGOPLAN_INSTRUCTIONS,
    EGOTHINK_ANNOTATIONS,
    EGOINTENT_JUDGED_ANSWERS,
    EGOINTENT_ANNOTATIONS,
    GOALSTEP_ANNOTATIONS,
    RESULTS,
    SAMPLES,
    ACTPLAN_ERROR_TYPES,
    EGOTHINK_JUDGED_ANSWERS,
    EGOTHINK_ANSWERS,
    EGOINTENT_ANSWERS,
)
"""All kinds. If a record has the keys of several kinds, the first one counts."""


def kind_of(record: Any) -> FileKind | None:
    """Return the kind of a file with this first record; None if the kind is unknown.

    >>> kind_of({"doc_id": 0, "resps": []}).name
    'samples of a harness; pass their folder, or the results file next to them'
    >>> kind_of({"sample_id": 1, "choice_a": "wash the cup", "domain": "Work"}).name
    "EgoPlan-Bench2's annotation file, the input of `lmms-egoplan data prepare egoplan_bench2`"
    """
    if not isinstance(record, Mapping):
        return None
    for kind in FILE_KINDS:
        if kind.keys <= record.keys():
            return kind
    return None


def check_kind(path: str | Path, records: Sequence[Any], expected: FileKind | None) -> None:
    """Check that a file with invalid records does not have the records of another dataset.

    Args:
        expected: The kind of file that the caller reads; None if it is not one of `FILE_KINDS`.

    Raises:
        LmmsEgoplanError: The records are those of another dataset. The message names it.
    """
    kind = kind_of(records[0]) if records else None
    if kind is not None and kind.is_annotation and kind != expected:
        raise LmmsEgoplanError(f"{path}: this looks like {kind.name}")
