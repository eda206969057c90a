"""The benchmarks' small rendered sets: files of the package, in the official layouts."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lmms_egoplan.media.frames import count_video_frames, frame_path, read_video_frames

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True)
class DemoSet:
    """A benchmark's small rendered set.

    folder: of its files; not the name of a task, which lmms-eval would look for there.
    prepare: arguments of ``lmms-egoplan data prepare``, with paths relative to the folder of `write`.
    tasks: of lmms-eval, which the demo runs.
    scores: the metric that must be a number then, by task.
    """

    folder: str
    prepare: tuple[str, ...]
    tasks: tuple[str, ...]
    scores: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Copy the set into ``folder/self.folder``; videos of EPIC-KITCHENS become folders of frames, as published."""
        root = folder / self.folder
        shutil.copytree(DATA / self.folder, root, ignore=shutil.ignore_patterns("epic-kitchens"))
        for video in sorted((DATA / self.folder / "epic-kitchens").glob("*.mp4")):
            frames = read_video_frames(video, range(count_video_frames(video)))
            write_frames(root / "epic-kitchens", video.stem, frames)


def write_frames(root: Path, video_id: str, frames: Iterable[Image.Image]) -> None:
    """Write a video as EPIC-KITCHENS' folder of frames."""
    folder = root / video_id.split("_")[0] / "rgb_frames" / video_id
    folder.mkdir(parents=True)
    for number, image in enumerate(frames, 1):
        image.save(frame_path(folder, number), quality=90)
