"""Annotation files of EgoPlan-IT: reading and checking every record."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egoplan.records import SampleId, Shown, read_records
from lmms_egoplan.validation import Text, expected, problem, shown


def _other_than_answer(negative: str, info: ValidationInfo) -> str:
    answer = info.data.get("answer", "")
    if negative.strip().casefold() == answer.strip().casefold():
        raise problem(f"same as answer: {shown(answer)}")
    return negative


class RecognitionRecord(Shown):
    """A question about what is shown, with its answer: of action recognition, the past actions (sec. 5.1)."""

    sample_id: SampleId
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


def read_instructions(path: str | Path) -> list[InstructionRecord]:
    """Read EgoPlan-IT's file and check every record of it.

    Args:
        path: JSON; a list of records, or an object that holds such a list under one key.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: see `read_records`; also where a record has no negative answer, or one that is the answer.
    """
    return read_records(InstructionRecord, Path(path), "EgoPlan_IT", "is it EgoPlan-IT's file?")


def read_recognition(path: str | Path) -> list[RecognitionRecord]:
    """Read action recognition, as ``data build egoplan`` writes it, and check every record of it.

    Args:
        path: as for `read_instructions`.

    Raises:
        LmmsEgoplanError: see `read_records`.
    """
    return read_records(RecognitionRecord, Path(path), "EgoPlan_IT_action_recognition", "is it action recognition?")
