"""Steps at the times of narrations: where each is cut, and what stands around it (sec. 3.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from lmms_egoplan.benchmarks.egointent.prepare import Cut
from lmms_egoplan.benchmarks.egointent.records import step_prefix
from lmms_egoplan.benchmarks.egointent.visuals import FPS
from lmms_egoplan.construction.ego4d import EGO4D_MEAN_GAP, segments
from lmms_egoplan.construction.egointent.goalstep import IRRELEVANT, LAST, Leaf, Video, leaves_of
from lmms_egoplan.construction.egointent.narrations import NarratedVideo, Narration
from lmms_egoplan.rejections import Rejection

# Narrations before and after a step that are its context: ours, the paper has no number.
NEIGHBOURS = 8

NO_STEP = "narration outside of Goal-Step's steps"
TOO_SHORT = "narration with less than a frame before it"


@dataclass(frozen=True)
class Step(Cut):
    """A step before it has labels.

    end_sec: The narration's time (sec. 3.3, Temporal Truncation Strategy). start_sec: See `find_steps`.
    leaf: Goal-Step's segment around this time, and its purpose.
    before, after: The neighbouring narrations, by time; none at the same time is after.
    """

    video: Video
    narration: Narration
    leaf: Leaf
    before: tuple[Narration, ...]
    after: tuple[Narration, ...]


def find_steps(videos: Sequence[Video], narrated: Mapping[str, NarratedVideo]) -> tuple[list[Step], list[Rejection]]:
    """Make a step of each of the camera wearer's narrations within a segment of Goal-Step.

    A step ends at the narration's time (sec. 3.3). Where it starts is not in the paper: here, at the narration before
    it or where Goal-Step's segment starts, whichever is later, but no later than EgoVLP's segment of this narration.
    Nothing is narrated after a video's last narration, so it makes no step.

    Args:
        videos: Goal-Step's videos; those without narrations make no steps.
        narrated: Narrations by uid.
    """
    steps: list[Step] = []
    rejections: list[Rejection] = []
    times = {uid: [narration.seconds for narration in video.narrations] for uid, video in narrated.items()}
    clips = segments(times, EGO4D_MEAN_GAP)
    for video in (video for video in videos if video.video_uid in narrated):
        uid = video.video_uid
        leaves = leaves_of(video)
        narrations = narrated[uid].narrations
        for index, narration in enumerate(narrations):
            if narration.problem:
                continue
            latest = clips[uid][index][0] if uid in clips else narration.seconds
            made = _step(video, leaves, narrations, index, latest)
            if isinstance(made, Step):
                steps.append(made)
            else:
                where = f"{uid}, narration {narration.number} at {narration.seconds} s"
                rejections.append(Rejection("step", made, where, narration.text))
    return steps, rejections


def _step(
    video: Video, leaves: Sequence[Leaf], narrations: Sequence[Narration], index: int, latest: float
) -> Step | str:
    """Make the step of a narration, which starts at `latest` at the latest; else return why there is none."""
    narration, seconds = narrations[index], narrations[index].seconds
    around = [leaf for leaf in leaves if leaf[0].start_time <= seconds <= leaf[0].end_time]
    later = (other for other in narrations[index + 1 :] if other.seconds > seconds and other.text)
    after = tuple(islice(later, NEIGHBOURS))
    if not around:
        return NO_STEP
    leaf = min(around, key=lambda leaf: leaf[0].end_time - leaf[0].start_time)
    if not leaf[0].counts:
        return IRRELEVANT
    if not after:
        return LAST
    backwards = narrations[:index][::-1]
    former = next((other.seconds for other in backwards if other.seconds < seconds), 0.0)
    start = max(0.0, min(max(former, leaf[0].start_time), latest))
    if seconds - start < 1 / FPS:
        return TOO_SHORT
    before = tuple(islice((other for other in backwards if other.text), NEIGHBOURS))[::-1]
    step_id = f"{step_prefix(video.video_uid)}_n{narration.number}"
    return Step(step_id, video.video_uid, round(start, 6), seconds, video, narration, leaf, before, after)
