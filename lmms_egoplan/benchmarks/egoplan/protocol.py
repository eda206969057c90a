"""EgoPlan's protocol: what a model sees and is asked, and how a written answer is read."""

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import LETTERS
from lmms_egoplan.benchmarks.egoplan.visuals import clip_images, progress_video, uniform_images
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import Doc, VisualInput, count_setting

INSTRUCTION = "Reply with nothing but the letter of the action to take: A, B, C or D."

NARRATED = "The progress up to now, as the actions that I have done, in order:"
NOTHING_DONE = "The progress up to now: I have done nothing yet."

_INTRODUCTION = r"(?i:(?:the )?(?:(?:best|correct|final|right) )?(?:answer|option|choice)(?: is)?(?: ?: ?| ))?"
_LETTER = f"([{LETTERS}])"
_CLAIM = re.compile(
    rf"{_INTRODUCTION}(?:\({_LETTER}\)[.:]?(?: |$)|{_LETTER}[.:)](?: |$)|{_LETTER}$)",
)
_STANDALONE = re.compile(rf"\b[{LETTERS}]\b")


def visual_input(doc: Doc, settings: Mapping[str, Any]) -> VisualInput:
    """What a model is shown of a question, never anything after the current observation (sec. 3.3).

    Args:
        doc: a row of the prepared dataset.
        settings: ``media`` and the counts that it takes, each at least 1:
            ``frames``: up to ``num_frames`` images of the whole progress, the observation last.
            ``clips``: one list of ``frames_per_clip`` images for each of the last ``num_clips`` past actions,
            and the observation as an image of its own (C.1).
            ``clip_frames``: the images of ``clips`` in one flat list.
            ``video``: path of an H.264 file of the progress.
            Other entries are left alone.

    Raises:
        LmmsEgoplanError: an unknown ``media``, or a count that is absent or no positive integer.
        FrameError: a frame is absent or cannot be decoded.
    """
    match settings.get("media"):
        case "frames":
            return list(uniform_images(doc, count_setting(settings, "num_frames")))
        case "clips" | "clip_frames" as media:
            clips, observation = clip_images(
                doc, count_setting(settings, "num_clips"), count_setting(settings, "frames_per_clip")
            )
            return [*(clips if media == "clips" else chain.from_iterable(clips)), observation]
        case "video":
            return [progress_video(doc)]
        case other:
            raise LmmsEgoplanError(f"visual settings: media must be frames, clips, clip_frames or video, got {other!r}")


def lettered_question(doc: Doc) -> str:
    """The record's question with its choices under the letters A to D, for models that answer in writing.

    Not the paper's evaluation, which ranks the choices' likelihoods (sec. 3.5).
    """
    options = (f"{letter}. {choice}" for letter, choice in zip(LETTERS, doc["choices"], strict=True))
    return "\n".join([doc["question"], *options, INSTRUCTION])


def narrated_question(doc: Doc) -> str:
    """The record's question behind the narrations of the past actions, in order, in place of the video.

    Not the paper's evaluation: what perfect perception of the progress would tell a model. The words are the project's.
    """
    actions = [f"{number}. {action['narration_text']}" for number, action in enumerate(doc["past_actions"], start=1)]
    return "\n".join([NARRATED if actions else NOTHING_DONE, *actions, doc["question"]])


def parse_letter(reply: str) -> str | None:
    """The one letter that a reply claims; None if it claims none, or mentions another one.

    The reply's first line must be a capital letter A to D, or begin with one that is marked as an option;
    either may be introduced as the answer: ``B``, ``B.``, ``B:``, ``(B)``, ``B) text``, ``(B) text``,
    ``Answer: B``, ``The answer is B.``, ``The correct option is (B) text``. Asterisks are ignored. A
    different letter A to D that stands alone anywhere makes a reply ambiguous. So ``A or B`` is not read, nor
    is ``A cat``, where the letter is not marked.
    """
    plain = reply.replace("*", "").strip()
    claim = _CLAIM.match(" ".join(plain.partition("\n")[0].split()))
    if claim is None:
        return None
    (letter,) = filter(None, claim.groups())
    return letter if set(_STANDALONE.findall(plain)) == {letter} else None
