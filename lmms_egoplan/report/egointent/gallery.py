"""EgoIntent's steps and answers in the gallery."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.egointent.frames import step_frames, thin
from lmms_egoplan.benchmarks.egointent.judge import GradedStep
from lmms_egoplan.benchmarks.egointent.prepare import SPLIT
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, TITLES
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.media.frames import read_video_frames
from lmms_egoplan.report.document import Images, ShownAnswer, ShownPart, Verdict
from lmms_egoplan.report.scores import Answer, Key

# Number of frames that the gallery shows.
_FRAMES = 12
# The gallery marks a step as right if the mean of its ratings is at least RIGHT, and as wrong if it
# is below WRONG.
RIGHT = 75
WRONG = 25


def question_fields(
    key: Key, answers: Sequence[Answer], prepared: Mapping[Key, dict[str, Any]]
) -> dict[str, Any]:
    """Return the fields of a step: those prepared, or those that lm-eval logged.

    Args:
        key: The step's key.
        answers: The answers, at least one.
        prepared: The prepared steps.
    """
    step_id, video = key
    first = answers[0].record
    groups = answers[0].groups
    doc: Mapping[str, Any] | None = prepared.get(key)
    if not doc:
        doc = next((answer.doc for answer in answers if answer.doc), None)
    when = f", {doc['start_sec']:.2f} to {doc['end_sec']:.2f} s" if doc else ""
    num_frames = max(answer.record.graded.frames_shown for answer in answers)
    return {
        "question": (
            f"Step {step_id} (video {video}{when}): what is done, why, and what comes next?"
        ),
        "facts": {
            "category" if first.is_goalstep else "scenario": groups["group"],
            "environment": groups["environment"],
            "references": "unverified" if first.unverified else "verified",
        },
        "references": {TITLES[field]: doc[field] for field in FIELDS} if doc else {},
        "images": _frames(doc, num_frames or _FRAMES),
    }


def shown_answer(answer: Answer) -> ShownAnswer:
    """Return the answer with the mean rating, each field's rating, and the judge's replies."""
    step = answer.record.graded
    mean = answer.scores["overall"]
    rating_parts = ["not judged" if mean is None else f"{mean:.1f} of 100"]
    if step.truncated:
        rating_parts.append("cut off")
    if step.suspect:
        rating_parts.append("suspect")
    judgements = [f"{TITLES[field]}: {text}" for field, text in step.judgements.items() if text]
    return ShownAnswer(
        _verdict(mean),
        "\n".join(_field_line(step, field) for field in FIELDS),
        rating="; ".join(rating_parts),
        judgement="\n".join(judgements) or None,
        reply=step.reply or None,
        parts=tuple(_part(step, field) for field in FIELDS),
    )


def _verdict(mean: float | None) -> Verdict:
    """Return the gallery's mark for the mean of a step's ratings."""
    if mean is None:
        return "unscored"
    if mean >= RIGHT:
        return "right"
    return "wrong" if mean < WRONG else "partly"


def _part(step: GradedStep, field: str) -> ShownPart:
    rating = step.ratings[field]
    return ShownPart(
        name=TITLES[field],
        text=step.fields.get(field),
        rating=f"not judged: {step.errors[field]}" if rating is None else f"{rating:g} of 100",
        judgement=step.judgements.get(field),
    )


def _field_line(step: GradedStep, field: str) -> str:
    rating = step.ratings[field]
    judgement = f"not judged: {step.errors[field]}" if rating is None else f"{rating:g}"
    return f"{TITLES[field]}: {step.fields.get(field, 'missing')} [{judgement}]"


def read_rows() -> dict[Key, dict[str, Any]]:
    """Read the prepared steps."""
    return {(row["step_id"], row["video_id"]): row for row in EGOINTENT.load(SPLIT)}


def _frames(doc: Mapping[str, Any] | None, count: int) -> Images | None:
    """Return a reader of a step's frames; None if the video is missing.

    Args:
        doc: The prepared step; None if it is missing.
        count: Number of frames that the model was shown.
    """
    # Path.is_file raises if a folder in the path is not accessible.
    if doc is None or not os.path.isfile(doc["video_path"]):  # noqa: PTH113
        return None
    return partial(read_frames, doc["video_path"], doc["start_sec"], doc["end_sec"], count)


def read_frames(video: str, start_sec: float, end_sec: float, count: int) -> list[Image.Image]:
    """Read the frames that the model was shown, at most as many as the gallery shows."""
    frames = thin(step_frames(video, start_sec, end_sec), max(1, count))
    return read_video_frames(video, thin(frames, _FRAMES))
