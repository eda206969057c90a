"""EgoPlan's annotation files: reading and checking every record."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, INT64_MAX, Question, Shown, read_records
from lmms_egoplan.validation import Expected, Text, expected, problem, shown

Split = Literal["val", "test"]

# The accuracy over a source's questions. Table 3: EgoPlan-IT was made of Epic-Kitchens, so Ego4D is out of domain.
SOURCE_METRIC = {EPIC_KITCHENS: "acc_epic_kitchens", EGO4D: "acc_ego4d"}
ANNOTATIONS_URL = "https://github.com/ChenYi99/EgoPlan"

# The published files are named after the list that they may hold under a key.
LIST_KEYS: dict[str, str] = {"val": "EgoPlan_validation", "test": "EgoPlan_test"}

_Id = Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX), Expected("an integer of 64 bits")]


class Record(Question):
    """One question, as the file has it."""

    sample_id: _Id


def _other_than_answer(negative: str, info: ValidationInfo) -> str:
    answer = info.data.get("answer", "")
    if negative.strip().casefold() == answer.strip().casefold():
        raise problem(f"same as answer: {shown(answer)}")
    return negative


class RecognitionRecord(Shown):
    """A question about what is shown, with its answer: of action recognition, the past actions (sec. 5.1)."""

    sample_id: _Id
    answer: Text


class InstructionRecord(RecognitionRecord):
    """One sample of EgoPlan-IT (sec. 5.1); its answer is the right action.

    negative_answers: other actions of the same goal, at least one, none the answer.
    """

    negative_answers: list[Annotated[Text, AfterValidator(_other_than_answer)]]

    @field_validator("negative_answers")
    @classmethod
    def _check_number(cls, negatives: list[str]) -> list[str]:
        if not negatives:
            raise expected("at least one other action")
        return negatives


def read_annotations(path: str | Path, split: Split | None) -> list[Record]:
    """Read an official annotation file and check every record of it.

    Args:
        path: JSON; a list of records, or an object that holds such a list under one key.
        split: In ``"val"``, every record must have the right choice. In ``"test"``, none may have one. None ignores it.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: the file cannot be read, or records are wrong; names the first 20 problems, each with
            the record's position (from 0), sample_id, field and what was found, and their total.
    """
    other = "val, whose file has answers," if split == "test" else "test, whose file has none,"
    hint = f"use --split {other} if it is that file; is it EgoPlan's annotation file for the {split} split?"
    if split is None:
        hint = "is it EgoPlan's annotation file?"
    is_private = None if split is None else split == "test"
    return read_records(Record, Path(path), LIST_KEYS[split or "test"], hint, {"is_private": is_private})


def read_instructions(path: str | Path) -> list[InstructionRecord]:
    """Read EgoPlan-IT's file and check every record of it.

    Args:
        path: as for `read_annotations`.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: as for `read_annotations`; also where a record has no negative answer, or one that is the
            answer.
    """
    return read_records(InstructionRecord, Path(path), "EgoPlan_IT", "is it EgoPlan-IT's file?", {})


def read_recognition(path: str | Path) -> list[RecognitionRecord]:
    """Read action recognition, as ``data build egoplan`` writes it, and check every record of it.

    Args:
        path: as for `read_annotations`.

    Raises:
        LmmsEgoplanError: as for `read_annotations`.
    """
    return read_records(RecognitionRecord, Path(path), "EgoPlan_IT_action_recognition", "is it action recognition?", {})
