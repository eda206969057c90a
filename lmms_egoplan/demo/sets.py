"""Copy the rendered sets."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from lmms_egoplan.benchmarks.base import DemoSet
from lmms_egoplan.demo import DATA
from lmms_egoplan.media.frames import count_video_frames, frame_path, read_video_frames


def copy_set(demo_set: DemoSet, folder: Path) -> Path:
    """Copy a set into a subfolder of `folder`.

    EPIC-KITCHENS videos become folders of frames, as published.

    Returns:
        The set's new folder.
    """
    root = folder / demo_set.folder
    shutil.copytree(
        DATA / demo_set.folder,
        root,
        ignore=shutil.ignore_patterns("epic-kitchens"),
        dirs_exist_ok=True,
    )
    for video in sorted((DATA / demo_set.folder / "epic-kitchens").glob("*.mp4")):
        frames = read_video_frames(video, range(count_video_frames(video)))
        write_frames(root / "epic-kitchens", video.stem, frames)
    return root


def write_frames(root: Path, video_id: str, frames: Iterable[Image.Image]) -> None:
    """Write a video as a folder of frames in EPIC-KITCHENS' layout."""
    folder = root / video_id.split("_")[0] / "rgb_frames" / video_id
    folder.mkdir(parents=True)
    for number, image in enumerate(frames, 1):
        image.save(frame_path(folder, number), quality=90)
