"""EgoPlan-Bench with the paper's evaluation: rank the candidate actions by likelihood (arXiv 2312.06722, sec. 3.5).

Neither annotations nor videos are redistributed. Set three environment variables to their locations:

* ``EGOPLAN_ANNOTATIONS``: ``EgoPlan_validation.json`` of https://github.com/ChenYi99/EgoPlan
* ``EGOPLAN_EPIC_KITCHENS_DIR``: EPIC-KITCHENS' RGB frames, ``P01/rgb_frames/P01_01/frame_0000000001.jpg``
* ``EGOPLAN_EGO4D_DIR``: Ego4D's videos, ``<video_id>.mp4``
"""

import os
from pathlib import Path
from typing import Any, Sequence

from PIL import Image

LETTERS = "ABCD"
EPIC_KITCHENS = "EpicKitchens"

Segment = tuple[int, int]


def __getattr__(name: str) -> str:
    """Return ``ANNOTATIONS``, which the task's YAML uses: read when the task is loaded, not when it is listed."""
    if name == "ANNOTATIONS":
        return str(_path("EGOPLAN_ANNOTATIONS", "EgoPlan_validation.json"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def egoplan_doc_to_visual(doc: dict[str, Any], lmms_eval_specific_kwargs: dict[str, Any] | None = None) -> list[Image.Image]:
    """Return frames of the whole progress; the last one is the current observation."""
    num_frames = (lmms_eval_specific_kwargs or {}).get("num_frames", UNIFORM_FRAMES)
    past = [(action["start_frame"], action["stop_frame"]) for action in doc["task_progress_metadata"]]
    numbers = uniform_frames(past, doc["current_observation_frame"], num_frames)
    video_id = doc["video_id"]
    if doc["video_source"] == EPIC_KITCHENS:  # frame files are numbered from 1
        folder = _path("EGOPLAN_EPIC_KITCHENS_DIR", video_id.split("_")[0], "rgb_frames", video_id)
        return [_read_image(folder / f"frame_{number:010d}.jpg") for number in numbers]
    return _read_frames(_path("EGOPLAN_EGO4D_DIR", f"{video_id}.mp4"), numbers)


def egoplan_doc_to_choice(doc: dict[str, Any]) -> list[str]:
    """Return the four candidate actions."""
    return [doc[f"choice_{letter.lower()}"] for letter in LETTERS]


def egoplan_doc_to_target(doc: dict[str, Any]) -> int:
    """Return the index of the correct action."""
    return LETTERS.index(doc["golden_choice_idx"])


# source: lmms_egoplan.benchmarks.egoplan.visuals: UNIFORM_FRAMES, uniform_frames, _check


# source: lmms_egoplan.media.sampling: evenly_spaced


def _path(variable: str, *parts: str) -> Path:
    """Return an environment variable's path if it is a file; otherwise join it with the parts."""
    root = os.environ.get(variable)
    if not root:
        raise ValueError(f"egoplan_ranked: set {variable} (see lmms_eval/tasks/egoplan_ranked/README.md)")
    path = Path(root).expanduser()
    path = path if path.is_file() else path.joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(f"egoplan_ranked: no {path}; {variable} is {root}")
    return path


def _read_image(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def _read_frames(path: Path, numbers: Sequence[int]) -> list[Image.Image]:
    """Read frames of a video with a constant frame rate, by index from 0."""
    import av

    images = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        start = float((stream.start_time or 0) * stream.time_base)
        for number in numbers:
            time = start + number / float(stream.average_rate)
            earliest = time - 0.5 / float(stream.average_rate)
            container.seek(int(time / stream.time_base), stream=stream)
            frame = next((frame for frame in container.decode(stream) if frame.time >= earliest), None)
            if frame is None:
                raise ValueError(f"egoplan_ranked: {path} has no frame {number}")
            images.append(frame.to_image())
    return images
