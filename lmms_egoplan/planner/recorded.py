"""A narrated video in place of a world to act in: the planner proposes, the video tells what really happened."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.egointent.goalstep import read_goalstep
from lmms_egoplan.benchmarks.egoplan.construction.narrations import normalised
from lmms_egoplan.benchmarks.egoplan.visuals import read_frames
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.clip import Clip
from lmms_egoplan.media.frames import FrameError, frame_times, read_video_frames
from lmms_egoplan.media.sampling import evenly_spaced
from lmms_egoplan.next_action.clock import EGO4D_FPS
from lmms_egoplan.next_action.visuals import FRAMES_PER_CLIP, progress_of
from lmms_egoplan.planner.environment import Outcome
from lmms_egoplan.planner.planner import Episode
from lmms_egoplan.storage import resolve_inside

# The current view lies so long before the next action (EgoPlan-Bench v2, sec. 3.3, Visual Input Alignment).
SECONDS_BEFORE = 0.5
# Of times in seconds.
_ROUNDING = 1e-6

Frames = Callable[[Sequence[int]], list[Image.Image]]


@dataclass(frozen=True)
class Narrated:
    """One action of a video: its text, and its first and last frame."""

    text: str
    start: int
    stop: int


class RecordedVideo:
    """The actions of one goal in one video, in their order.

    Args:
        name: of the video.
        goal: what its actions are for.
        narrated: at least two actions, by their starts.
        frames: reads frames by their numbers; a `FrameError` of it names the video's file.
        fps: frames per second of the source.
        first: number of its first frame.
    """

    def __init__(
        self, name: str, goal: str, narrated: Sequence[Narrated], frames: Frames, fps: float, first: int
    ) -> None:
        self.name, self.goal = name, goal
        self._narrated, self._frames, self._fps, self._first = narrated, frames, fps, first
        # Texts with the same words are one action.
        self._actions = {normalised(action.text): action.text for action in reversed(narrated)}
        self._next = 0

    @property
    def num_actions(self) -> int:
        """How many the video shows."""
        return len(self._narrated)

    def observe(self) -> Image.Image:
        """The view half a second before the next action; behind the last one, its last frame."""
        if self.done():
            return self._read([self._narrated[-1].stop])[0]
        start = self._narrated[self._next].start
        return self._read([max(self._first, start - max(1, round(SECONDS_BEFORE * self._fps)))])[0]

    def actions(self) -> list[str]:
        """All actions of the goal, alphabetically: their order would tell what comes next."""
        return sorted(self._actions.values())

    def execute(self, action: str) -> Outcome:
        """Whatever is asked for, what really happened is what is seen next."""
        real = self._narrated[self._next]
        numbers = evenly_spaced(real.start, real.stop, FRAMES_PER_CLIP)
        rate = (len(numbers) - 1) * self._fps / max(1, real.stop - real.start)
        clip = Clip(self._read(numbers), rate)
        self._next += 1
        shown = self._actions[normalised(real.text)]
        return Outcome(True, "as in the video" if action == shown else f"in the video: {shown}", clip, shown)

    def done(self) -> bool:
        return self._next >= len(self._narrated)

    def _read(self, numbers: Sequence[int]) -> list[Image.Image]:
        try:
            return self._frames(numbers)
        except FrameError as error:
            raise LmmsEgoplanError(f"{self.name}: {error}") from error


def step_accuracy(episodes: Iterable[Episode]) -> tuple[int, int]:
    """Steps whose best proposal is the action that the video shows next, and all steps."""
    steps = [step for episode in episodes for step in episode.steps]
    return sum(step.proposals[0].action == step.outcome.done for step in steps), len(steps)


def egoplan_videos(rows: Iterable[Mapping[str, Any]]) -> list[RecordedVideo]:
    """A video for each goal of EgoPlan's prepared validation split, by the question that tells most of its progress.

    What that question asks for ends the recording: it has no segment of its own, so it is not replayed.

    Raises:
        LmmsEgoplanError: no goal has two past actions.
    """

    def key(row: Mapping[str, Any]) -> tuple[str, str, str]:
        return row["video_source"], row["video_id"], row["task_goal"]

    videos = []
    for (_, video, goal), group in groupby(sorted(rows, key=key), key):
        row = max(group, key=lambda row: len(row["past_actions"]))
        progress = progress_of(row)
        texts = [action["narration_text"] for action in row["past_actions"]]
        past = [Narrated(text, *segment) for text, segment in zip(texts, progress.past, strict=True)]
        if len(past) > 1:
            videos.append(
                RecordedVideo(f"{video}, {goal}", goal, past, partial(read_frames, row), float(progress.fps), 1)
            )
    if not videos:
        raise LmmsEgoplanError("no goal of these questions has two past actions to replay")
    return videos


def goalstep_videos(annotations: str | Path, folder: str | Path) -> list[RecordedVideo]:
    """A video for each one of Goal-Step's annotations that lies in the folder as ``<video_uid>.mp4``.

    Its goal is that of the video; its actions are the steps, without those that are irrelevant to it.

    Raises:
        LmmsEgoplanError: the annotations cannot be read or are of another form, or no video with two steps is there.
    """
    videos = []
    for video in read_goalstep(annotations):
        path = resolve_inside(folder, f"{video.video_uid}.mp4")
        steps = sorted((step for step in video.segments if step.counts), key=lambda step: step.start_time)
        if len(steps) < 2 or not path.is_file():
            continue
        narrated = [
            Narrated(step.step_description, round(step.start_time * EGO4D_FPS), round(step.end_time * EGO4D_FPS))
            for step in steps
        ]
        videos.append(
            RecordedVideo(video.video_uid, video.goal_description, narrated, partial(_read_at, path), EGO4D_FPS, 0)
        )
    if not videos:
        raise LmmsEgoplanError(f"{folder}: none of the videos with two steps or more of {annotations} is there")
    return videos


def _read_at(path: Path, numbers: Sequence[int]) -> list[Image.Image]:
    """What a video shows at times that are counted in frames of `EGO4D_FPS`.

    Raises:
        FrameError: the video cannot be read, or ends a second or more before one of them.
    """
    times = frame_times(path)
    seconds = [number / EGO4D_FPS for number in numbers]
    if max(seconds) >= times[-1] + 1:
        raise FrameError(f"{path}: ends after {times[-1]:.1f} s; an action of it is at {max(seconds):.1f} s")
    return read_video_frames(path, [max(0, bisect_right(times, time + _ROUNDING) - 1) for time in seconds])
