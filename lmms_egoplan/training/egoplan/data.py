"""EgoPlan-IT: its annotation files, checked, and their records as samples.

Samples are questions with negatives, action recognition on the same clips, held-out goals.
"""

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egoplan.records import VIDEO_URLS, PastAction, SampleId, Shown, read_records
from lmms_egoplan.benchmarks.egoplan.sources import Id, find_video
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN
from lmms_egoplan.construction.egoplan.questions import RECOGNITION_QUESTION
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, find_footage
from lmms_egoplan.media.frames import DamagedFrameError
from lmms_egoplan.training.samples import Sample
from lmms_egoplan.validation import Text, expected, listing, problem, shown


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


def find_frames(
    records: Sequence[RecognitionRecord], roots: dict[str, Path | None], num_clips: int, where: str
) -> dict[Id, Footage]:
    """Find the footage of each record by its sample id, with all frames from its first clip to its observation.

    Args:
        roots: folders by source; None where none is given.
        num_clips: how many past actions are shown, the last ones.
        where: names the records' file.

    Raises:
        LmmsEgoplanError: frames are missing, or a source's folder is not given; names the first 20 videos.
    """

    def find(group: Sequence[RecognitionRecord]) -> dict[Id, Footage | str]:
        source = group[0].video_source
        if (root := roots[source]) is None:
            raise LmmsEgoplanError(f"the folder of {source} is not given (download: {VIDEO_URLS[source]})")
        clips = [record.model_copy(update={"past_actions": record.past_actions[-num_clips:]}) for record in group]
        return find_video(root, clips)

    footage, lost = find_footage(
        records, attrgetter("sample_id"), attrgetter("video_source", "video_id"), find, verify=False
    )
    if lost:
        problems = [f"{video} (sample_id {', '.join(map(str, ids[:3]))}): {reason}" for (_, video), reason, ids in lost]
        if len(problems) == 1:
            raise LmmsEgoplanError(f"{where}: the frames of {problems[0]}")
        raise LmmsEgoplanError(f"{where}: the frames of {len(problems)} videos are missing:\n{listing(problems)}")
    return footage


def plan_samples(
    records: Sequence[InstructionRecord], footage: dict[Id, Footage], visuals: dict[str, Any], where: str
) -> list[Sample]:
    """Make a sample of each record: its question, its answer, all its negatives, its clips and the observation.

    Args:
        visuals: settings of `Visuals.visual_input`.
        where: names the file.
    """
    return [_sample(record, footage, visuals, where, record.negative_answers) for record in records]


def recognition_samples(
    records: Sequence[RecognitionRecord], footage: dict[Id, Footage], visuals: dict[str, Any], where: str
) -> list[Sample]:
    """Make a sample of each record that has a clip."""
    return [_sample(record, footage, visuals, where, ()) for record in records if record.past_actions]


def recognition_of(records: Sequence[InstructionRecord], num_clips: int) -> list[RecognitionRecord]:
    """Make action recognition on the same clips (sec. 5.1): the answer lists the actions shown, in order."""
    return [
        record.model_copy(
            update={"question": RECOGNITION_QUESTION, "answer": _listed(record.past_actions[-num_clips:])}
        )
        for record in records
    ]


def hold_out(
    records: Sequence[InstructionRecord], share: float, seed: int
) -> tuple[list[InstructionRecord], list[InstructionRecord]]:
    """Set some videos' records apart, so that no clip stands on both sides.

    Args:
        share: of the records, in [0, 1); whole videos are set apart as long as they fit it, or one, the smallest.

    Returns:
        The records to train on, and those set apart.

    Raises:
        LmmsEgoplanError: there is one video only, so that none can be set apart.
    """
    counts: Counter[tuple[str, str]] = Counter((record.video_source, record.video_id) for record in records)
    names = sorted(counts)
    random.Random(seed).shuffle(names)
    wanted = share * len(records)
    apart: set[tuple[str, str]] = set()
    if wanted and len(names) < 2:
        raise LmmsEgoplanError(
            f"held_out: {share:g}: all records are of one video, so that none can be held out; set held_out to 0"
        )
    for name in names:
        if sum(counts[other] for other in apart) + counts[name] <= wanted and len(apart) < len(names) - 1:
            apart.add(name)
    if wanted and not apart:
        apart.add(min(names, key=counts.__getitem__))
    return (
        [record for record in records if (record.video_source, record.video_id) not in apart],
        [record for record in records if (record.video_source, record.video_id) in apart],
    )


def _listed(actions: Sequence[PastAction]) -> str:
    listed = ", ".join(action.narration_text.strip() for action in actions)
    return f"{listed[:1].upper()}{listed[1:]}."


def _sample(
    record: RecognitionRecord, footage: dict[Id, Footage], visuals: dict[str, Any], where: str, negatives: Sequence[str]
) -> Sample:
    doc = record.model_dump(
        include={"sample_id", "video_source", "video_id", "current_observation_frame", "past_actions"}
    )
    doc["media_path"] = str(footage[record.sample_id].path)
    clips = min(len(record.past_actions), visuals["num_clips"])
    return Sample(
        name=f"{where}, sample_id {record.sample_id}",
        turns=((record.question, record.answer.strip()),),
        negatives=tuple(negative.strip() for negative in negatives),
        visuals=partial(_shown, doc, visuals),
        num_visuals=clips * visuals["frames_per_clip"] + 1,
        fields=("question", "answer", *(f"negative_answers[{index}]" for index in range(len(negatives)))),
    )


def _shown(doc: dict[str, Any], visuals: dict[str, Any]) -> Sequence[Any]:
    """Call `Visuals.visual_input` without its advice, which is about prepared questions."""
    try:
        return EGOPLAN.visual_input(doc, visuals)
    except DamagedFrameError as error:
        raise DamagedFrameError(str(error.__cause__)) from error
