"""A narrated video in place of a world to act in: the planner proposes, the video tells what really happened."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.records import FIRST_FRAME
from lmms_egoplan.benchmarks.egoplan.sources import EGO4D_FPS
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN, clip_frames, frame_rate, progress_of
from lmms_egoplan.construction.egointent.goalstep import read_goalstep
from lmms_egoplan.construction.egoplan.narrations import normalised
from lmms_egoplan.construction.egoplan.questions import SECONDS_BEFORE
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.media.frames import Clip, FrameError, frame_times, read_video_frames
from lmms_egoplan.planner.planner import Episode, Outcome

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

    The view of a step is half a second before its action (EgoPlan-Bench v2, sec. 3.3, Visual Input Alignment), or the
    first frame. The clips of past actions end there at the latest, as in EgoPlan's questions (`clip_frames`); an action
    that begins after the view has no clip yet.

    Args:
        name: of the video.
        goal: what its actions are for.
        narrated: at least two actions, by their starts.
        frames: reads frames by their numbers; a `FrameError` of it names the video's file.
        fps: frames per second of the source.
        first, last: numbers of its first frame, and of the view after the last action.
    """

    def __init__(
        self, name: str, goal: str, narrated: Sequence[Narrated], frames: Frames, fps: float, first: int, last: int
    ) -> None:
        self.name, self.goal = name, goal
        self._narrated, self._frames, self._fps = narrated, frames, fps
        before = max(1, math.ceil(round(SECONDS_BEFORE * fps, 1)))
        self._views = [*(max(first, action.start - before) for action in narrated), last]
        self._clips: dict[tuple[int, ...], Clip] = {}
        # Texts with the same words are one action.
        self._actions = {normalised(action.text): action.text for action in reversed(narrated)}
        self._next = 0

    @property
    def num_actions(self) -> int:
        """The number of actions in the video."""
        return len(self._narrated)

    def observe(self) -> Image.Image:
        """Return the view half a second before the next action; after the last one, the recording's end."""
        return self._read([self._views[self._next]])[0]

    def actions(self) -> list[str]:
        """Return all actions of the goal, alphabetically: their order would reveal what comes next."""
        return sorted(self._actions.values())

    def execute(self, action: str) -> Outcome:
        """Show what really happened next, whatever is asked for, as far as it happened before the next view."""
        real = self._narrated[self._next]
        self._next += 1
        view = self._views[self._next]
        begun = [(one.start, one.stop) for one in self._narrated[: self._next] if one.start <= view]
        clips = [tuple(numbers) for numbers in clip_frames(begun, view)]
        self._clips = {numbers: self._clips.get(numbers) or self._clip(numbers) for numbers in clips}
        past = [self._clips[numbers] for numbers in clips]
        shown = self._actions[normalised(real.text)]
        message = "as in the video" if action == shown else f"in the video: {shown}"
        return Outcome(
            changed=True, message=message, clip=past[-1] if real.start <= view else Clip(), done=shown, past=past
        )

    def done(self) -> bool:
        """Tell if the recording has ended."""
        return self._next >= len(self._narrated)

    def _clip(self, numbers: Sequence[int]) -> Clip:
        return Clip(self._read(numbers), frame_rate(numbers, self._fps))

    def _read(self, numbers: Sequence[int]) -> list[Image.Image]:
        try:
            return self._frames(numbers)
        except FrameError as error:
            raise LmmsEgoplanError(f"{self.name}: {error}") from error


def step_accuracy(episodes: Iterable[Episode]) -> tuple[int, int]:
    """Count the steps whose best proposal is the action that the video shows next, and all steps."""
    steps = [step for episode in episodes for step in episode.steps]
    return sum(step.proposals[0].action == step.outcome.done for step in steps), len(steps)


def guesses(episode: Episode, actions: Sequence[str]) -> tuple[float, float]:
    """Count steps that guesses get right on average: among all the goal's actions, and those "not done yet".

    The second guess is among the actions that the video has not shown in earlier steps, or among all once it has shown
    each; it knows the past, and sees nothing.
    """
    not_done = 0.0
    left = set(actions)
    for step in episode.steps:
        left = left or set(actions)
        not_done += (step.outcome.done in left) / len(left)
        left.discard(step.outcome.done)
    return len(episode.steps) / len(actions), not_done


def egoplan_videos(rows: Iterable[Mapping[str, Any]]) -> list[RecordedVideo]:
    """Make a video for each goal of EgoPlan's prepared validation split, by the question with most progress.

    The recording ends with that question's observation. What it asks for has no segment, so it is not replayed.

    Raises:
        LmmsEgoplanError: no goal has two past actions.
    """

    def key(row: Mapping[str, Any]) -> tuple[str, str, str]:
        return row["video_source"], row["video_id"], row["task_goal"]

    videos = []
    for (source, video, goal), group in groupby(sorted(rows, key=key), key):
        row = max(group, key=lambda row: len(row["past_actions"]))
        progress = progress_of(row)
        texts = [action["narration_text"] for action in row["past_actions"]]
        past = [Narrated(text, *segment) for text, segment in zip(texts, progress.past, strict=True)]
        first, last = (FIRST_FRAME[source] if row.get("clip_frames") is None else 0), progress.observation
        read, fps = partial(EGOPLAN.read_frames, row), float(progress.fps)
        if len(past) > 1:
            videos.append(RecordedVideo(f"{video}, {goal}", goal, past, read, fps, first, last))
    if not videos:
        raise LmmsEgoplanError("no goal of these questions has two past actions to replay")
    return videos


def goalstep_videos(annotations: str | Path, folder: str | Path) -> list[RecordedVideo]:
    """Make a video for each of Goal-Step's annotations that is in the folder as ``<video_uid>.mp4``.

    Its goal is that of the video; its actions are the steps, without those that are irrelevant to it.

    Raises:
        LmmsEgoplanError: the annotations cannot be read or are of another form, or no video with two steps is there.
    """
    videos = []
    for video in read_goalstep(Path(annotations)):
        path = resolve_inside(folder, f"{video.video_uid}.mp4")
        steps = sorted((step for step in video.segments if step.counts), key=lambda step: step.start_time)
        if len(steps) < 2 or not path.is_file():
            continue
        narrated = [
            Narrated(step.step_description, round(step.start_time * EGO4D_FPS), round(step.end_time * EGO4D_FPS))
            for step in steps
        ]
        goal, read, last = video.goal_description, partial(_read_at, path), narrated[-1].stop
        videos.append(RecordedVideo(video.video_uid, goal, narrated, read, EGO4D_FPS, 0, last))
    if not videos:
        raise LmmsEgoplanError(f"{folder}: none of the videos with two steps or more of {annotations} is there")
    return videos


def _read_at(path: Path, numbers: Sequence[int]) -> list[Image.Image]:
    """Read what a video shows at times that are counted in frames of `EGO4D_FPS`.

    Raises:
        FrameError: the video cannot be read, or ends a second or more before one of them.
    """
    times = frame_times(path)
    seconds = [number / EGO4D_FPS for number in numbers]
    if max(seconds) >= times[-1] + 1:
        raise FrameError(f"{path}: ends after {times[-1]:.1f} s; an action of it is at {max(seconds):.1f} s")
    return read_video_frames(path, [max(0, bisect_right(times, time + _ROUNDING) - 1) for time in seconds])
