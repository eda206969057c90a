"""Select the frames of a question's progress.

The tasks' YAML files say how many. No frame after the current observation is shown (sec. 3.3,
C.1), except by the authors' clips of Ego4D, see `published.published_clips`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lmms_egoplan.benchmarks.egoplan.records import frames_per_second
from lmms_egoplan.media.sampling import Doc, evenly_spaced

# The project's default for models without multi-clip input.
UNIFORM_FRAMES = 8
# The most recent N = 4 action segments with K = 8 keyframes each (arXiv 2312.06722, C.1).
NUM_CLIPS = 4
FRAMES_PER_CLIP = 8

Segment = tuple[int, int]


@dataclass(frozen=True)
class Progress:
    """The frames of a question that may be shown, by their numbers in its file or folder.

    Attributes:
        past: (start, stop) of the past actions, ordered by start; may be empty.
        first: The first frame.
        observation: The last frame.
        fps: Frames per second.
        source_fps: Frames per second of the source; the same, except in a clip with another number
            of frames.
    """

    past: list[Segment]
    first: int
    observation: int
    fps: Fraction
    source_fps: Fraction

    @property
    def seconds(self) -> Fraction:
        """Duration in the source: up to the observation, which lasts one frame."""
        return Fraction(self.observation - self.first) / self.fps + 1 / self.source_fps

    def uniform_frames(self, num_frames: int) -> list[int]:
        """Return evenly spaced frames up to the observation; see the function `uniform_frames`."""
        return uniform_frames([(self.first, self.observation)], self.observation, num_frames)


def progress_of(doc: Doc) -> Progress:
    """Return the progress of a row of the prepared dataset.

    It starts with its ``first_frame``, or else with the first action. For a ready clip, the
    source's frame numbers are mapped evenly to positions in the clip. If both have the same number
    of frames, each frame is mapped to one position.
    """
    observation = doc["current_observation_frame"]
    first = first_frame_of(doc)
    past = past_segments(doc)
    source_fps = Fraction(frames_per_second(doc["video_source"], doc["video_id"]))
    num_frames = doc.get("clip_frames")
    if num_frames is None:
        return Progress(past, first, observation, fps=source_fps, source_fps=source_fps)
    segments = [
        (position_in_media(doc, start), position_in_media(doc, stop)) for start, stop in past
    ]
    last = num_frames - 1
    fps = source_fps
    if observation > first and last > 0:
        fps = source_fps * last / (observation - first)
    return Progress(segments, first=0, observation=last, fps=fps, source_fps=source_fps)


def past_segments(doc: Doc) -> list[Segment]:
    """Return the start and stop of a row's past actions, by the frame numbers of its source."""
    return [(action["start_frame"], action["stop_frame"]) for action in doc["past_actions"]]


def first_frame_of(doc: Doc) -> int:
    """Return a row's ``first_frame``, else the first action's start, else the observation."""
    if doc.get("first_frame") is not None:
        return doc["first_frame"]
    if doc["past_actions"]:
        return doc["past_actions"][0]["start_frame"]
    return doc["current_observation_frame"]


def position_in_media(doc: Doc, number: int) -> int:
    """Return where a row's file or folder has a frame of the source.

    Ready clips end with the observation.
    """
    num_frames = doc.get("clip_frames")
    if num_frames is None:
        return number
    first = first_frame_of(doc)
    observation = doc["current_observation_frame"]
    span = observation - first
    if span == 0:
        return 0
    offset = max(min(number, observation) - first, 0)
    # offset / span of the clip, rounded half up
    return (2 * offset * (num_frames - 1) + span) // (2 * span)


def uniform_frames(
    past: Sequence[Segment], observation: int, num_frames: int = UNIFORM_FRAMES
) -> list[int]:
    """Return evenly spaced frames, from the first past action's start to the observation.

    Args:
        past: (start, stop) frame numbers of the past actions, ordered by start; may be empty.
        observation: Number of the current observation's frame.
        num_frames: At least 1.

    Returns:
        At most `num_frames` strictly increasing numbers that end with `observation`; fewer if the
        span has fewer frames. Without past actions, only the observation.

    Raises:
        ValueError: `num_frames` is below 1, or a past action starts after the observation.
    """
    _check(past, observation, num_frames=num_frames)
    first = past[0][0] if past else observation
    return evenly_spaced(first, observation, min(num_frames, observation - first + 1))


def clip_frames(
    past: Sequence[Segment],
    observation: int,
    num_clips: int = NUM_CLIPS,
    frames_per_clip: int = FRAMES_PER_CLIP,
) -> list[list[int]]:
    """Return evenly spaced frames of each of the last past actions (arXiv 2312.06722, C.1).

    The observation is a separate image, not a clip, although the last action may end with that
    frame. An action that continues after the observation is cut there.

    Args:
        past, observation: As for `uniform_frames`.
        num_clips, frames_per_clip: At least 1.

    Returns:
        At most `num_clips` lists, oldest action first. Each has `frames_per_clip` non-decreasing
        numbers from the action's start to its stop. An action with fewer frames repeats some:
        models with video input need clips of equal length.

    Raises:
        ValueError: As for `uniform_frames`. Also raised if an action stops before it starts.
    """
    _check(past, observation, num_clips=num_clips, frames_per_clip=frames_per_clip)
    return [
        evenly_spaced(start, min(stop, observation), frames_per_clip)
        for start, stop in past[-num_clips:]
    ]


def frames_without_end(first: int, last: int, num_frames: int) -> list[int]:
    """Return the frames that FlagEvalMM shows of a video.

    Source: read_video_pyav in flagevalmm/common/video_utils.py.

    Returns:
        All numbers from `first` to `last` if they are at most `num_frames`; else `num_frames`
        numbers, rounded down, which begin with `first` and end before `last`.

    >>> frames_without_end(0, 3, 4), frames_without_end(0, 10, 4)
    ([0, 1, 2, 3], [0, 2, 5, 8])
    """
    length = last - first + 1
    if length <= num_frames:
        return list(range(first, last + 1))
    return [first + i * length // num_frames for i in range(num_frames)]


def paired_frames(length: int, wanted: Fraction, least: int, most: int) -> int:
    """Return the number of frames that Qwen's preprocessing shows of a video.

    Source: smart_nframes in qwen_vl_utils.

    Args:
        length: Number of frames of the video.
        wanted: Its duration times the requested rate.
        least, most: Limits. A shorter video has fewer frames than `least`.

    Returns:
        An even number. A video of one frame, at which smart_nframes fails, is shown twice.

    >>> [paired_frames(length, Fraction(length, 15), 4, 16) for length in (1, 3, 30, 75, 900)]
    [2, 2, 4, 4, 16]
    """
    highest = Fraction(min(most, length))
    count = int(min(max(wanted, Fraction(least)), highest))
    even_count = count // 2 * 2
    return max(2, even_count)


def _check(past: Sequence[Segment], observation: int, **counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    for start, stop in past:
        if start > min(stop, observation):
            raise ValueError(
                f"past action {start}-{stop} starts after its stop or the observation, "
                f"{observation}"
            )


def frame_rate(frames: Sequence[int], fps: Fraction | float) -> float | None:
    """Return the rate of evenly spaced frames, in frames per second; None for a single image.

    Copies of a single frame count as lasting one frame of the source.
    """
    if len(frames) <= 1:
        return None
    gaps = len(frames) - 1
    span = max(1, frames[-1] - frames[0])
    return float(gaps * fps / span)
