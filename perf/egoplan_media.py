"""Generate media and annotations of the sizes of EgoPlan's validation split, for measurements."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

QUESTIONS, EPIC_QUESTIONS = 3355, 2432
"""Numbers of all questions of the validation split, and of those on EPIC-KITCHENS frames; the rest
use Ego4D videos.
"""
EPIC_SIZE, EPIC_VIDEOS, EPIC_LENGTH = (456, 256), 16, 2000
EGO4D_SIZE, EGO4D_VIDEOS, EGO4D_LENGTH = (512, 288), 300, 9000


def prepare(folder: Path, records: list[dict[str, Any]]) -> None:
    """Write media and annotations, and prepare the split with `folder` as the data root."""
    from lmms_egoplan.benchmarks.egoplan.footage.index import Media
    from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
    from lmms_egoplan.media.frames import write_video

    os.environ["LMMS_EGOPLAN_DATA"] = str(folder)
    videos = sorted({record["video_id"] for record in records if record["video_source"] == "Ego4D"})
    (folder / "ego4d").mkdir()
    write_video(folder / "video.mp4", _views(EGO4D_SIZE, EGO4D_LENGTH), 30)
    for video in videos:
        (folder / "ego4d" / f"{video}.mp4").hardlink_to(folder / "video.mp4")
    _write_epic_folders(folder / "epic")
    annotations = folder / "annotations.json"
    annotations.write_text(json.dumps(records), encoding="utf-8")
    prepare_egoplan(
        annotations, "val", Media({"EpicKitchens": folder / "epic", "Ego4D": folder / "ego4d"})
    )


def record(number: int) -> dict[str, Any]:
    """Return an annotation; the sources are mixed in the validation split's proportions."""
    on_files = number * EPIC_QUESTIONS % QUESTIONS < EPIC_QUESTIONS
    length, videos = (EPIC_LENGTH, EPIC_VIDEOS) if on_files else (EGO4D_LENGTH, EGO4D_VIDEOS)
    span = 240 + number * 7 % 360
    first = 1 + number * 131 % (length - span - 1)
    choices = ["pour water", "wash the cup", "open the drawer", "take the spoon out of the drawer"]
    return {
        "sample_id": number,
        "video_source": "EpicKitchens" if on_files else "Ego4D",
        "video_id": f"P01_{number % videos:02}" if on_files else f"video-{number % videos:03}",
        "task_goal": f"brew tea {number % 2407}",
        "question": "Considering the progress shown and my current observation, "
        "what action should I take "
        "next in "
        f"order to brew tea {number % 2407}?",
        **{f"choice_{letter}": choice for letter, choice in zip("abcd", choices, strict=True)},
        "golden_choice_idx": "ABCD"[number % 4],
        "answer": choices[number % 4],
        "current_observation_frame": first + span,
        "task_progress_metadata": [
            {
                "narration_text": "fill the kettle",
                "start_frame": first,
                "stop_frame": first + span // 2,
            },
            {
                "narration_text": "switch it on",
                "start_frame": first + span // 2,
                "stop_frame": first + span,
            },
        ],
    }


def _write_epic_folders(root: Path) -> None:
    """Write frame folders that repeat 240 different frames: 4 seconds at 60 frames per second."""
    from lmms_egoplan.media.frames import frame_path

    files = []
    (root / "frames").mkdir(parents=True)
    for number, view in enumerate(_views(EPIC_SIZE, 240)):
        files.append(root / "frames" / f"{number}.jpg")
        view.save(files[-1], quality=90)
    for video in range(EPIC_VIDEOS):
        folder = root / "P01" / "rgb_frames" / f"P01_{video:02}"
        folder.mkdir(parents=True)
        for number in range(1, EPIC_LENGTH + 1):
            frame_path(folder, number).hardlink_to(files[number % len(files)])


def _views(size: tuple[int, int], count: int) -> "Iterator[Image.Image]":
    """Yield frames of a moving textured scene."""
    import numpy as np
    from PIL import Image

    width, height = size
    coarse = np.random.default_rng(0).integers(0, 255, (height // 8, width // 4, 3), dtype=np.uint8)
    scene = Image.fromarray(coarse).resize((2 * width, height), Image.Resampling.BICUBIC)
    for index in range(count):
        offset = abs(index % (2 * width) - width)
        yield scene.crop((offset, 0, offset + width, height))
