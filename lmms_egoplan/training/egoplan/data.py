"""Read and check EgoPlan-IT's annotation files, and convert their records to samples.

There are questions with negatives, action recognition on the same clips, and held-out videos.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import AfterValidator, ValidationInfo

from lmms_egoplan.benchmarks.egoplan.footage.sources import Id, find_video
from lmms_egoplan.benchmarks.egoplan.records import VIDEO_URLS, SampleId, VideoRecord, read_records
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN
from lmms_egoplan.benchmarks.file_kinds import EGOPLAN_INSTRUCTIONS
from lmms_egoplan.construction.egoplan.questions import RECOGNITION_QUESTION, recognition_answer
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, find_footage
from lmms_egoplan.media.frames import DamagedFrameError
from lmms_egoplan.training.samples import Sample
from lmms_egoplan.validation import Text, problem, quoted, refuse

video_of: Callable[[VideoRecord], tuple[str, str]] = attrgetter("video_source", "video_id")
"""Identify a record's video by its source and its id there."""


def _other_than_answer(negative: str, info: ValidationInfo) -> str:
    answer = info.data.get("answer", "")
    if negative.strip().casefold() == answer.strip().casefold():
        raise problem(f"same as answer: {quoted(answer)}")
    return negative


class RecognitionRecord(VideoRecord):
    """A question about the visual input, with its answer.

    In action recognition: the past actions (sec. 5.1).
    """

    sample_id: SampleId
    answer: Text


class InstructionRecord(RecognitionRecord):
    """A record of EgoPlan-IT (sec. 5.1). Its answer is the right action.

    Attributes:
        negative_answers: Other actions of the same goal, at least one, all different from the
            answer.
    """

    FILE_KIND = EGOPLAN_INSTRUCTIONS

    negative_answers: Annotated[
        list[Annotated[Text, AfterValidator(_other_than_answer)]], MinLen(1)
    ]


def read_instructions(path: str | Path) -> list[InstructionRecord]:
    """Read EgoPlan-IT's file and check every record.

    Args:
        path: JSON file: a list of records, or an object that contains such a list under one key.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: See `read_records`. Also, a record has no negative answer, or one that
            equals the answer.
    """
    return read_records(InstructionRecord, Path(path), "EgoPlan_IT", "is it EgoPlan-IT's file?")


def read_recognition(path: str | Path) -> list[RecognitionRecord]:
    """Read action recognition, as written by ``data build egoplan``, and check every record.

    Args:
        path: As for `read_instructions`.

    Raises:
        LmmsEgoplanError: See `read_records`.
    """
    return read_records(
        RecognitionRecord, Path(path), "EgoPlan_IT_action_recognition", "is it action recognition?"
    )


def find_frames(
    records: Sequence[RecognitionRecord], roots: dict[str, Path | None], num_clips: int, where: str
) -> dict[Id, Footage]:
    """Find the footage of each record, with all frames from its first clip to its observation.

    Args:
        records: The records.
        roots: Folders by source; None if not given.
        num_clips: Number of past actions to show, the last ones.
        where: Name of the records' file, for messages.

    Returns:
        The footage by sample id.

    Raises:
        LmmsEgoplanError: Frames are missing, or a source's folder is not given. Names the first 20
            videos.
    """

    def find(group: Sequence[RecognitionRecord]) -> dict[Id, Footage | str]:
        source = group[0].video_source
        root = roots[source]
        if root is None:
            raise LmmsEgoplanError(
                f"missing folder of {source}; set it (download: {VIDEO_URLS[source]})"
            )
        clips = [
            record.model_copy(update={"past_actions": record.past_actions[-num_clips:]})
            for record in group
        ]
        return find_video(root, clips)

    footage, lost = find_footage(records, attrgetter("sample_id"), video_of, find, verify=False)
    problems = [
        f"{video} (sample_id {', '.join(map(str, ids[:3]))}): {reason}"
        for (_, video), reason, ids in lost
    ]
    refuse(
        problems,
        f"{where}: missing frames of ",
        f"{where}: the frames of {len(problems)} videos are missing:",
    )
    return footage


def plan_samples(
    records: Sequence[InstructionRecord],
    footage: dict[Id, Footage],
    visuals: dict[str, Any],
    where: str,
) -> list[Sample]:
    """Create a sample for each record: its question, answer, negatives, clips and observation.

    Args:
        visuals: Settings for `FrameReader.visual_input`.
        where: Name of the file, for messages.
    """
    return [_sample(record, footage, visuals, where, record.negative_answers) for record in records]


def recognition_samples(
    records: Sequence[RecognitionRecord],
    footage: dict[Id, Footage],
    visuals: dict[str, Any],
    where: str,
) -> list[Sample]:
    """Create a sample for each record that has a clip."""
    return [
        _sample(record, footage, visuals, where, ()) for record in records if record.past_actions
    ]


def recognition_of(records: Sequence[InstructionRecord], num_clips: int) -> list[RecognitionRecord]:
    """Derive action recognition on the same clips (sec. 5.1).

    The answer lists the actions shown, in order.
    """
    derived: list[RecognitionRecord] = []
    for record in records:
        shown = record.past_actions[-num_clips:]
        answer = recognition_answer([action.narration_text.strip() for action in shown])
        fields = {"question": RECOGNITION_QUESTION, "answer": answer}
        derived.append(record.model_copy(update=fields))
    return derived


def hold_out(
    records: Sequence[InstructionRecord], share: float, seed: int
) -> tuple[list[InstructionRecord], list[InstructionRecord]]:
    """Hold out the records of some videos, so that training and held-out records share no clip.

    Args:
        records: The records.
        share: Fraction of the records, in [0, 1). Whole videos are held out if they fit; if none
            fits, the smallest.
        seed: Random seed for the choice of videos.

    Returns:
        The training records and the held-out records.

    Raises:
        LmmsEgoplanError: All records are from one video, so none can be held out.
    """
    counts = Counter(map(video_of, records))
    names = sorted(counts)
    random.Random(seed).shuffle(names)
    max_records = share * len(records)
    held_out: set[tuple[str, str]] = set()
    if max_records and len(names) < 2:
        raise LmmsEgoplanError(
            f"held_out: {share:g}: all records are from one video, so none can be held "
            "out; set held_out to 0"
        )
    for name in names:
        num_records = sum(counts[video] for video in held_out) + counts[name]
        if num_records <= max_records and len(held_out) < len(names) - 1:
            held_out.add(name)
    if max_records and not held_out:
        held_out.add(min(names, key=counts.__getitem__))
    return (
        [record for record in records if video_of(record) not in held_out],
        [record for record in records if video_of(record) in held_out],
    )


def _sample(
    record: RecognitionRecord,
    footage: dict[Id, Footage],
    visuals: dict[str, Any],
    where: str,
    negatives: Sequence[str],
) -> Sample:
    doc = record.model_dump(
        include={
            "sample_id",
            "video_source",
            "video_id",
            "current_observation_frame",
            "past_actions",
        }
    )
    doc["media_path"] = str(footage[record.sample_id].path)
    clips = min(len(record.past_actions), visuals["num_clips"])
    return Sample(
        name=f"{where}, sample_id {record.sample_id}",
        turns=((record.question, record.answer.strip()),),
        negatives=tuple(negative.strip() for negative in negatives),
        visuals=partial(_read_visuals, doc, visuals),
        num_visuals=clips * visuals["frames_per_clip"] + 1,
        fields=(
            "question",
            "answer",
            *(f"negative_answers[{index}]" for index in range(len(negatives))),
        ),
    )


def _read_visuals(doc: dict[str, Any], visuals: dict[str, Any]) -> Sequence[Any]:
    """Call `FrameReader.visual_input`, but drop its advice, which is for prepared questions."""
    try:
        return EGOPLAN.visual_input(doc, visuals)
    except DamagedFrameError as error:
        raise DamagedFrameError(str(error.__cause__)) from error
