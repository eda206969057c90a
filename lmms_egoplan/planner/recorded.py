"""Replay a narrated video as an environment.

The planner proposes actions, and the video shows what happened.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.frames import clip_frames, frame_rate, progress_of
from lmms_egoplan.benchmarks.egoplan.records import EGO4D_FPS, FIRST_FRAME
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN
from lmms_egoplan.benchmarks.egoplan.wording import normalised
from lmms_egoplan.construction.egointent.goalstep import read_goalstep
from lmms_egoplan.construction.egoplan.questions import frames_before
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.media.frames import Clip, FrameError, frame_times, read_video_frames
from lmms_egoplan.planner.planner import ActionOutcome, Episode, Status

# Tolerance for times, in seconds.
_ROUNDING = 1e-6

Frames = Callable[[Sequence[int]], list[Image.Image]]


@dataclass(frozen=True, slots=True)
class NarratedAction:
    """One action of a video: its text, and its first and last frame."""

    text: str
    start: int
    stop: int


class RecordedVideo:
    """The actions of one goal in one video, in order.

    The view of a step is half a second before its action (EgoPlan-Bench v2, sec. 3.3, Visual Input
    Alignment), or the first frame. The clips of past actions end at the view at the latest, as in
    EgoPlan's questions (`clip_frames`). An action that begins after the view has no clip yet.

    Args:
        name: Name of the video.
        goal: Goal of the actions.
        narrated: At least two actions, ordered by start.
        frames: Reads frames by their numbers. Its `FrameError` names the video's file.
        fps: Frames per second of the source.
        first: Number of the video's first frame.
        last: Number of the frame that is the view after the last action.
    """

    def __init__(
        self,
        name: str,
        goal: str,
        narrated: Sequence[NarratedAction],
        frames: Frames,
        fps: float,
        first: int,
        last: int,
    ) -> None:
        self.name = name
        self.goal = goal
        self._narrated = narrated
        self._frames = frames
        self._fps = fps
        self._views = [
            *(max(first, action.start - frames_before(fps)) for action in narrated),
            last,
        ]
        self._clips: dict[tuple[int, ...], Clip] = {}
        # Texts with the same words are one action.
        self._texts = {normalised(action.text): action.text for action in reversed(narrated)}
        self._next = 0

    @property
    def num_actions(self) -> int:
        """The number of actions in the video."""
        return len(self._narrated)

    @property
    def actions(self) -> list[str]:
        """All actions of the goal, sorted alphabetically.

        Their own order would reveal the next action.
        """
        return sorted(self._texts.values())

    def status(self) -> Status:
        """Return all actions of the goal, and whether the recording has ended."""
        return Status(self.actions, done=self._next >= len(self._narrated))

    def observe(self) -> Image.Image:
        """Return the view half a second before the next action.

        After the last action, return the recording's end.
        """
        return self._read([self._views[self._next]])[0]

    def execute(self, action: str) -> ActionOutcome:
        """Show the action that really happened next, up to the next view.

        The requested action has no effect.
        """
        real = self._narrated[self._next]
        self._next += 1
        view = self._views[self._next]
        begun = [
            (past.start, past.stop) for past in self._narrated[: self._next] if past.start <= view
        ]
        clips = [tuple(numbers) for numbers in clip_frames(begun, view)]
        self._clips = {
            numbers: self._clips.get(numbers) or self._clip(numbers) for numbers in clips
        }
        past = [self._clips[numbers] for numbers in clips]
        real_text = self._texts[normalised(real.text)]
        message = "as in the video" if action == real_text else f"in the video: {real_text}"
        return ActionOutcome(
            changed=True,
            message=message,
            clip=past[-1] if real.start <= view else Clip(),
            real_action=real_text,
            past=past,
        )

    def _clip(self, numbers: Sequence[int]) -> Clip:
        return Clip(self._read(numbers), frame_rate(numbers, self._fps))

    def _read(self, numbers: Sequence[int]) -> list[Image.Image]:
        try:
            return self._frames(numbers)
        except FrameError as error:
            raise LmmsEgoplanError(f"{self.name}: {error}") from error


def step_accuracy(episodes: Iterable[Episode]) -> tuple[int, int]:
    """Return the numbers of correct steps and of all steps.

    A step is correct if its best proposal is the video's next action.
    """
    steps = [step for episode in episodes for step in episode.steps]
    return sum(step.proposals[0].action == step.outcome.real_action for step in steps), len(steps)


def guesses(episode: Episode, actions: Sequence[str]) -> tuple[float, float]:
    """Return the number of steps that two guesses get right on average.

    One guesses among all actions, the other among those not done.

    The second guess is among the actions that the video has not shown in earlier steps, or among
    all actions once it has shown each of them. It knows the past actions and sees no image.
    """
    not_done = 0.0
    remaining = set(actions)
    for step in episode.steps:
        remaining = remaining or set(actions)
        not_done += (step.outcome.real_action in remaining) / len(remaining)
        remaining.discard(step.outcome.real_action)
    return len(episode.steps) / len(actions), not_done


def egoplan_videos(rows: Iterable[Mapping[str, Any]]) -> list[RecordedVideo]:
    """Build a video for each goal of EgoPlan's prepared questions with at least two past actions.

    A goal's video comes from its question with most past actions, and ends with that question's
    observation. The question's answer has no segment, and is not replayed.

    Args:
        rows: Prepared questions of the validation split.

    Raises:
        LmmsEgoplanError: No goal has two past actions.
    """

    def key(row: Mapping[str, Any]) -> tuple[str, str, str]:
        return row["video_source"], row["video_id"], row["task_goal"]

    videos = []
    for (source, video, goal), group in groupby(sorted(rows, key=key), key):
        row = max(group, key=lambda row: len(row["past_actions"]))
        if len(row["past_actions"]) < 2:
            continue
        progress = progress_of(row)
        actions = zip(row["past_actions"], progress.past, strict=True)
        past = [NarratedAction(action["narration_text"], *segment) for action, segment in actions]
        # Ready clips are counted from 0, the sources' videos from their own first frame.
        first = FIRST_FRAME[source] if row.get("clip_frames") is None else 0
        last = progress.observation
        read = partial(EGOPLAN.read_frames, row)
        fps = float(progress.fps)
        videos.append(RecordedVideo(f"{video}, {goal}", goal, past, read, fps, first, last))
    if not videos:
        raise LmmsEgoplanError("no goal of these questions has two past actions to replay")
    return videos


def goalstep_videos(annotations: str | Path, folder: str | Path) -> list[RecordedVideo]:
    """Build a video for each of Goal-Step's annotations with a video file.

    The folder contains it as ``<video_uid>.mp4``.

    The goal is that of the video. The actions are its steps, without those marked as irrelevant.

    Raises:
        LmmsEgoplanError: The annotations cannot be read or have another form. The folder contains
            no video with two steps.
    """
    videos = []
    for video in read_goalstep(Path(annotations)):
        path = resolve_inside(folder, f"{video.video_uid}.mp4")
        steps = sorted(
            (step for step in video.segments if step.counts), key=lambda step: step.start_time
        )
        if len(steps) < 2 or not path.is_file():
            continue
        narrated = [
            NarratedAction(
                step.step_description,
                round(step.start_time * EGO4D_FPS),
                round(step.end_time * EGO4D_FPS),
            )
            for step in steps
        ]
        goal = video.goal_description
        read = partial(_read_at, path)
        last = narrated[-1].stop
        videos.append(RecordedVideo(video.video_uid, goal, narrated, read, EGO4D_FPS, 0, last))
    if not videos:
        raise LmmsEgoplanError(
            f"{folder}: no video that has two steps or more in {annotations}; download its videos"
        )
    return videos


def _read_at(path: Path, numbers: Sequence[int]) -> list[Image.Image]:
    """Read a video's frames at times counted in frames of `EGO4D_FPS`.

    Raises:
        FrameError: The video cannot be read, or ends a second or more before one of the times.
    """
    times = frame_times(path)
    seconds = [number / EGO4D_FPS for number in numbers]
    if max(seconds) >= times[-1] + 1:
        raise FrameError(
            f"{path}: ends at {times[-1]:.1f} s, but an action needs the frame at "
            f"{max(seconds):.1f} s"
        )
    return read_video_frames(
        path, [max(0, bisect_right(times, time + _ROUNDING) - 1) for time in seconds]
    )
