"""Which frames of the progress a model sees. Nothing after the current observation, ever."""

from collections.abc import Sequence

from lmms_egoplan.media.sampling import evenly_spaced

# The project's default for models without multi-clip input.
UNIFORM_FRAMES = 8
# The most recent N = 4 action segments with K = 8 keyframes each (paper, C.1).
NUM_CLIPS = 4
FRAMES_PER_CLIP = 8

Segment = tuple[int, int]


def uniform_frames(past: Sequence[Segment], observation: int, num_frames: int = UNIFORM_FRAMES) -> list[int]:
    """Evenly spaced frames of the whole progress, from the first past action's start to the observation.

    Args:
        past: (start, stop) frame numbers of the past actions, in order of their starts; may be empty.
        observation: number of the current observation's frame.
        num_frames: at least 1.

    Returns:
        At most `num_frames` strictly increasing numbers that end with `observation`; fewer where the span has
        fewer frames, and the observation alone without past actions.

    Raises:
        ValueError: `num_frames` below 1, or a past action that starts after the observation.
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
    """Evenly spaced frames of each of the last past actions (paper, C.1).

    The observation is an image of its own and no clip here, though the last action may end with that frame.
    An action that goes on after the observation is cut there.

    Args:
        past, observation: as for `uniform_frames`.
        num_clips, frames_per_clip: at least 1.

    Returns:
        At most `num_clips` lists, oldest action first, each of `frames_per_clip` non-decreasing numbers from
        the action's start to its stop; an action with fewer frames repeats some, so that all clips of a
        question have one length, as models with video input need.

    Raises:
        ValueError: as for `uniform_frames`, or an action that stops before it starts.
    """
    _check(past, observation, num_clips=num_clips, frames_per_clip=frames_per_clip)
    return [evenly_spaced(start, min(stop, observation), frames_per_clip) for start, stop in past[-num_clips:]]


def _check(past: Sequence[Segment], observation: int, **counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    for start, stop in past:
        if start > min(stop, observation):
            raise ValueError(f"past action {start}-{stop} must start by its stop and by the observation, {observation}")
