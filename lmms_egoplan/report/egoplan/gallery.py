"""Questions and answers of EgoPlan-Bench and EgoPlan-Bench2 in the gallery."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.frames import UNIFORM_FRAMES
from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.document import ShownAnswer, Verdict
from lmms_egoplan.report.egoplan.docs import references
from lmms_egoplan.report.scores import Answer, Key

_VERDICTS: dict[float | None, Verdict] = {1.0: "right", 0.0: "wrong", None: "unscored"}
Facts = dict[str, str]


def question_fields(
    key: Key, doc: Doc | None, facts: Facts, reader: visuals.FrameReader
) -> dict[str, Any]:
    """Return the fields of a question.

    Args:
        key: The question's key.
        doc: The question; None if it is not available.
        facts: The properties that the gallery can be filtered by.
        reader: Reads the frames.
    """
    fields: dict[str, Any] = {
        "facts": facts,
        "choices": tuple(LETTERS),
        "gold": LETTERS.index(str(key[2])),
    }
    if not doc:
        return fields | {"question": f"{key[1]}: the question is not available"}
    goal = doc["task_goal"]
    return fields | {
        "question": doc["question"],
        "title": f"To {goal[:1].lower()}{goal[1:]}: what next?" if goal else "",
        "choices": tuple(doc["choices"]),
        "references": references(doc),
        "images": frames_of(doc, reader),
    }


def frames_of(doc: Doc, reader: visuals.FrameReader) -> Callable[[], Any] | None:
    """Return a function that reads a question's frames; None if its media are missing."""
    if not _exists(doc["media_path"]):
        return None
    settings = {"media": "frames", "num_frames": UNIFORM_FRAMES}
    return partial(reader.visual_input, doc, settings)


def _exists(path: str) -> bool:
    # Path.exists raises an error if a parent folder is not readable.
    return os.path.exists(path)  # noqa: PTH110


def shown_answer(answer: Answer) -> ShownAnswer:
    """Return the log-probabilities of the choices, or the reply."""
    choice = answer.record
    is_unread = choice.text is not None and choice.chosen is None
    return ShownAnswer(
        _VERDICTS[answer.scores["acc"]],
        choice.text,
        choice.logprobs,
        choice.chosen,
        "no letter of a choice was read" if is_unread else None,
        gain=(answer.scores.get("gain"), answer.scores.get("gain_margin")),
    )
