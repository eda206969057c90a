"""EgoPlan-Bench, ranked by likelihood as in its paper (arXiv 2312.06722, sec. 3.5).

The model's choice is the candidate action with the lowest mean loss per token. The task ``egoplan`` asks for a letter
instead, and its scores are not comparable. The model sees frames of the whole progress, evenly spaced; the last one
is the current observation. Nothing is redistributed; set these environment variables:

* ``EGOPLAN_ANNOTATIONS``: ``EgoPlan_validation.json`` from https://github.com/ChenYi99/EgoPlan
* ``EGOPLAN_EPIC_KITCHENS_DIR``: EPIC-KITCHENS frames, ``P01/rgb_frames/P01_01/frame_0000000001.jpg``
* ``EGOPLAN_EGO4D_DIR``: Ego4D videos, ``<video_id>.mp4``
"""

import os
from pathlib import Path
from typing import Any

import cv2
from PIL import Image

ANNOTATIONS = os.environ.get("EGOPLAN_ANNOTATIONS", "EgoPlan_validation.json")
LETTERS = "ABCD"
NUM_FRAMES = 8


def egoplan_doc_to_visual(doc: dict[str, Any]) -> list[Image.Image]:
    """Return the frames of the progress; without past actions, all of them are the current observation."""
    last = doc["current_observation_frame"]
    first = min([action["start_frame"] for action in doc["task_progress_metadata"]], default=last)
    numbers = [first + index * (last - first) // (NUM_FRAMES - 1) for index in range(NUM_FRAMES)]
    video_id = doc["video_id"]
    if doc["video_source"] == "EpicKitchens":
        folder = Path(os.environ["EGOPLAN_EPIC_KITCHENS_DIR"]) / video_id.split("_")[0] / "rgb_frames" / video_id
        return [Image.open(folder / f"frame_{number:010d}.jpg").convert("RGB") for number in numbers]
    return _read_frames(Path(os.environ["EGOPLAN_EGO4D_DIR"]) / f"{video_id}.mp4", numbers)


def egoplan_doc_to_choice(doc: dict[str, Any]) -> list[str]:
    """Return the four candidate actions."""
    return [doc[f"choice_{letter.lower()}"] for letter in LETTERS]


def egoplan_doc_to_target(doc: dict[str, Any]) -> int:
    """Return the index of the correct action."""
    return LETTERS.index(doc["golden_choice_idx"])


def _read_frames(path: Path, numbers: list[int]) -> list[Image.Image]:
    """Read frames of a video by number, from 0."""
    video = cv2.VideoCapture(str(path))
    images = []
    for number in numbers:
        video.set(cv2.CAP_PROP_POS_FRAMES, number)
        is_read, frame = video.read()
        if not is_read:
            raise FileNotFoundError(f"egoplan_ranked: no frame {number} in {path}")
        images.append(Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)))
    video.release()
    return images
