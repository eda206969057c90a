"""Select the frames that the authors' code of EgoPlan-Bench and EgoPlan-Bench2 shows."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.egoplan.frames import (
    FRAMES_PER_CLIP,
    NUM_CLIPS,
    UNIFORM_FRAMES,
    Segment,
    first_frame_of,
    past_segments,
)
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.media.sampling import Doc


def published_frames(first: int, observation: int, num_frames: int = UNIFORM_FRAMES) -> list[int]:
    """Return the frames that the authors' code shows of the whole progress.

    Sources: ego4d_video_process and epic_kitchens_video_process in src/video_llama_interface.py
    (EgoPlan-Bench), and cut_keyframes in eval.py (EgoPlan-Bench2). If the progress is one frame,
    EgoPlan-Bench's code fails (`authors_fail_at_video`); here, the frame is repeated, as without
    past actions.

    Returns:
        Exactly `num_frames` non-decreasing numbers, rounded down; the last one is `observation`. A
        span with fewer frames repeats some.

    >>> published_frames(0, 10), published_frames(9, 10)
    ([0, 1, 2, 4, 5, 7, 8, 10], [9, 9, 9, 9, 9, 9, 9, 10])
    """
    gaps = num_frames - 1
    return [first + i * (observation - first) // gaps for i in range(gaps)] + [observation]


def authors_fail_at_video(doc: Doc) -> bool:
    """Return whether the authors' code of EgoPlan-Bench fails to read a row's video.

    It fails at a progress of one frame.

    >>> past = [{"start_frame": 9, "stop_frame": 20}]
    >>> doc = {"past_actions": past, "current_observation_frame": 9}
    >>> authors_fail_at_video(doc), authors_fail_at_video(doc | {"past_actions": []})
    (True, False)
    """
    return bool(doc["past_actions"]) and first_frame_of(doc) == doc["current_observation_frame"]


@dataclass(frozen=True)
class PublishedClips:
    """The frames that the authors' code shows of the last past actions.

    Attributes:
        frames: At most as many lists as requested clips, oldest action first, of equal length.
        authors_fail: True if the authors' code fails, since an action has too few frames. This
            project shows it nevertheless, by repeating frames.
    """

    frames: list[list[int]]
    authors_fail: bool


def clips_as_published(
    doc: Doc, num_clips: int = NUM_CLIPS, frames_per_clip: int = FRAMES_PER_CLIP
) -> PublishedClips:
    """Return the `published_clips` of a prepared row, by the frame numbers of its source."""
    return published_clips(
        past_segments(doc),
        doc["current_observation_frame"],
        num_clips,
        frames_per_clip,
        is_epic=doc["video_source"] == EPIC_KITCHENS,
    )


def published_clips(
    past: Sequence[Segment],
    observation: int,
    num_clips: int = NUM_CLIPS,
    frames_per_clip: int = FRAMES_PER_CLIP,
    *,
    is_epic: bool,
) -> PublishedClips:
    """Return the frames that the authors' code shows of the last past actions.

    EPIC-KITCHENS (load_video in src/video_llama/video_llama/processors/egoplan_video_processor.py):
    Actions that stop after the observation are dropped before the last ones are taken. Each action
    stops where the next one starts, at the latest. Its frames are the starts of `frames_per_clip`
    equal parts, rounded down.

    Ego4D (ego4d_video_image_process in src/egoplan_video_llama_interface.py): No action is dropped
    or cut, so frames after the observation may be shown. The frames are steps of a whole number of
    frames from the action's start, so that its end is not shown.

    The authors' code fails at an action of EPIC-KITCHENS with fewer frames than `frames_per_clip`
    (after the cut), and at one of Ego4D with at most as many. Here, such an action's frames are the
    starts of equal parts in both sources, so that some are repeated.

    Args:
        past, observation: As for `uniform_frames`.
        num_clips, frames_per_clip: At least 1.

    >>> published_clips([(10, 95), (90, 120)], 130, is_epic=True).frames
    [[10, 20, 30, 40, 50, 60, 70, 80], [90, 93, 97, 101, 105, 109, 113, 117]]
    >>> published_clips([(10, 89)], 89, is_epic=False).frames
    [[10, 19, 28, 37, 46, 55, 64, 73]]
    >>> clips = published_clips([(10, 20), (14, 40)], 50, is_epic=True)
    >>> clips.frames
    [[10, 10, 11, 11, 12, 13, 13, 14], [14, 17, 20, 24, 27, 30, 34, 37]]
    >>> clips.authors_fail
    True
    """
    actions = _cut_actions(past, observation, num_clips) if is_epic else list(past[-num_clips:])
    frames = []
    authors_fail = False
    for start, stop in actions:
        length = stop - start + 1
        step = (stop - start) // frames_per_clip
        is_short = length < frames_per_clip if is_epic else step == 0
        if is_epic or is_short:
            offsets = [i * length // frames_per_clip for i in range(frames_per_clip)]
        else:
            offsets = [i * step for i in range(frames_per_clip)]
        frames.append([start + offset for offset in offsets])
        authors_fail = authors_fail or is_short
    return PublishedClips(frames, authors_fail)


def _cut_actions(past: Sequence[Segment], observation: int, num_clips: int) -> list[Segment]:
    """Return the last actions that stop before the observation, each cut where the next starts."""
    complete = [(start, stop) for start, stop in past if stop <= observation]
    last_actions = complete[-num_clips:]
    next_starts = [start for start, _ in last_actions[1:]]
    cut = []
    for (start, stop), end in zip(last_actions, [*next_starts, observation], strict=False):
        cut.append((start, min(stop, end)))
    return cut
