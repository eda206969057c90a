"""EgoIntent's steps and their frames as they are prepared on this machine."""

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egointent.prepare import SPLIT
from lmms_egoplan.benchmarks.egointent.report.answers import Key
from lmms_egoplan.benchmarks.egointent.splits import PREPARED

if TYPE_CHECKING:
    from PIL import Image

# As many as the gallery shows.
_FRAMES = 12


def prepared_steps() -> tuple[dict[Key, dict[str, Any]], str | None]:
    """The prepared rows, and why there are none."""
    try:
        return {(row["step_id"], row["video_id"]): row for row in PREPARED.load(SPLIT)}, None
    except (OSError, ValueError) as error:  # What is missing or damaged, of which `datasets` has many kinds.
        return {}, str(error)


def frames(doc: Mapping[str, Any] | None, count: int) -> "partial[list[Image.Image]] | None":
    """Reads what a model was shown that saw this many frames; None where the video is not at hand."""
    # Path's own raises where a folder on the way is closed.
    if doc is None or not os.path.isfile(doc["video_path"]):  # noqa: PTH113
        return None
    return partial(read_frames, doc["video_path"], doc["start_sec"], doc["end_sec"], count)


def read_frames(video: str, start_sec: float, end_sec: float, count: int) -> "list[Image.Image]":
    """Frames that the model was shown, no more than the gallery shows."""
    from lmms_egoplan.benchmarks.egointent.visuals import step_frames, thin
    from lmms_egoplan.media.frames import read_video_frames

    return read_video_frames(video, thin(thin(step_frames(video, start_sec, end_sec), max(1, count)), _FRAMES))
