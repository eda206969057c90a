"""Vary the demo's videos for a tuning: random colours and random views."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.records import (
    EGO4D,
    EPIC_KITCHENS,
    LIST_KEYS,
    Record,
    read_annotations,
)
from lmms_egoplan.demo import DATA
from lmms_egoplan.media.frames import count_video_frames, read_video_frames

FPS = 10
OBSERVATION_LEAD = FPS // 2
"""Frames between an observation and the next action: 0.5 s (arXiv 2312.06722, sec. 3.3)."""
STEP_FRAMES = 14
PAUSE_FRAMES = 8

_GOALS = 6
# Maximum shift of each end of a colour channel (of 255), and maximum cropped fraction of a side.
_RECOLOURED = 40
_OTHER_ROOM = 90
_CROPPED = 0.12


@dataclass(frozen=True, slots=True)
class Procedure:
    """A goal and the steps that reach it.

    Attributes:
        goal: The goal.
        steps: Descriptions of the steps.
        starts: First frame of each step, counted from 0. A step takes `STEP_FRAMES`, after a pause
            of `PAUSE_FRAMES`.
    """

    goal: str
    steps: tuple[str, ...]
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class World:
    """A procedure in a recoloured video.

    Attributes:
        procedure: The procedure.
        video: The original video.
        colours: New value for each value of each channel.
        view: The visible part of each frame: left, top, right, bottom.
    """

    procedure: Procedure
    video: Path
    colours: tuple[int, ...]
    view: tuple[float, float, float, float]

    def frame(self, number: int) -> Image.Image:
        """Return a frame, counted from 0."""
        image = _frames(self.video)[number]
        return image.resize(image.size, box=self.view).point(self.colours)

    def frames(self) -> Iterator[Image.Image]:
        """Return all frames in order."""
        return map(self.frame, range(len(_frames(self.video))))


@cache
def procedures() -> dict[Procedure, tuple[Path, Path]]:
    """Read the demo's first procedures, each with its video and a video of another room."""
    root = DATA / "egoplan"
    other_room = DATA / "egoplan-bench2" / "ego4d"
    last = {
        record.video_id: record
        for record in read_annotations(root / f"{LIST_KEYS['val']}.json", "val")
    }
    folders = {EPIC_KITCHENS: root / "epic-kitchens", EGO4D: root / "ego4d"}
    return {
        _procedure(record): (
            folders[record.video_source] / f"{video_id}.mp4",
            other_room / f"{video_id.replace('_', '-')}.mp4",
        )
        for video_id, record in list(last.items())[:_GOALS]
    }


def vary(procedure: Procedure, generator: random.Random, *, is_other_room: bool = False) -> World:
    """Return a procedure in a random world.

    Args:
        is_other_room: Use the video of another room, with stronger changes of colour.
    """
    most = _OTHER_ROOM if is_other_room else _RECOLOURED
    video = procedures()[procedure][is_other_room]
    colours: list[int] = []
    for _ in range(3):
        darkest = generator.uniform(0, most)
        brightest = 255 - generator.uniform(0, most)
        colours += [round(darkest + (brightest - darkest) * value / 255) for value in range(256)]
    width, height = _frames(video)[0].size
    left, right = (width * generator.uniform(0, _CROPPED / 2) for _ in range(2))
    top, bottom = (height * generator.uniform(0, _CROPPED / 2) for _ in range(2))
    return World(procedure, video, tuple(colours), (left, top, width - right, height - bottom))


def _procedure(record: Record) -> Procedure:
    """Read a procedure from the question about its last step."""
    first = min(action.start_frame for action in record.past_actions) - PAUSE_FRAMES
    starts = [action.start_frame for action in record.past_actions]
    starts.append(record.current_observation_frame + OBSERVATION_LEAD)
    steps = [action.narration_text for action in record.past_actions] + [record.answer]
    return Procedure(record.task_goal, tuple(steps), tuple(start - first for start in starts))


@cache
def _frames(video: Path) -> list[Image.Image]:
    return read_video_frames(video, range(count_video_frames(video)))
