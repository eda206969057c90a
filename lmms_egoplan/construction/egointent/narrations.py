"""Read Ego4D's narrations, and make a step of each, with its times and context (sec. 3.3)."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.frames import FPS
from lmms_egoplan.benchmarks.egointent.prepare import Cut
from lmms_egoplan.benchmarks.egointent.records import step_prefix
from lmms_egoplan.construction import ego4d
from lmms_egoplan.construction.egointent.goalstep import IRRELEVANT, LAST, Leaf, Video, leaves_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, quoted

_TAG = re.compile(r"#\s*(?=[a-z])", re.IGNORECASE)
_UNSURE = re.compile(r"#\s*unsure\b", re.IGNORECASE)
_ACTOR = re.compile(r"^c\s+", re.IGNORECASE)

SECOND_PASS = "second pass over the same video"
REPEATED = "same narration at the same time"
# Number of context narrations on each side of a step. Chosen here: the paper has no number.
NEIGHBOURS = 8

NO_STEP = "narration outside of Goal-Step's steps"
TOO_SHORT = "less than one frame before the narration"


@dataclass(frozen=True)
class Narration:
    """One narration.

    Attributes:
        number: Position by time among the video's narrations, from 1.
        seconds: Time in the video.
        text: Text in one line, without tags: "C picks a pan".
        problem: Why it cannot become a step; "" if it can. It still serves as context for other
            steps.
    """

    number: int
    seconds: float
    text: str
    problem: str = ""

    @property
    def action(self) -> str:
        """The camera wearer's action: "picks a pan", as in Table 2."""
        return _ACTOR.sub("", self.text)


@dataclass(frozen=True)
class NarratedVideo:
    """A video's narrations and summaries.

    Attributes:
        narrations: The narrations by time.
        summaries: Texts that summarize its parts.
    """

    narrations: tuple[Narration, ...]
    summaries: tuple[str, ...]


def read_narrations(
    path: Path, uids: Collection[str]
) -> tuple[dict[str, NarratedVideo], list[Rejection]]:
    """Read the narrations of some videos.

    A video may be narrated in several passes; the first pass with narrations is used. Some
    narrations only serve as context: those about people other than the camera wearer (``#O``),
    those about unclear objects (``#unsure``), and those in non-Latin letters.

    Args:
        path: Ego4D's ``narration.json``.
        uids: Ids of the videos.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another form, or none of the videos has
            narrations with a time.
    """
    raws = ego4d.read_narrated_videos(path)
    rejections: list[Rejection] = []
    videos: dict[str, NarratedVideo] = {}
    for uid in uids:
        where = f"{path}, {uid}"
        passes = list(ego4d.narrated_passes(raws.get(uid)))
        if not passes:
            rejections.append(Rejection("narration", ego4d.NO_NARRATIONS, where))
            continue
        (name, first_pass), *later_passes = passes
        rejections += [
            Rejection(
                "narration", SECOND_PASS, f"{where}, {pass_name}", f"{len(narrations)} narrations"
            )
            for pass_name, narrations in later_passes
        ]
        timed = ego4d.timed_narrations(f"{where}, {name}", first_pass, rejections)
        if timed:
            videos[uid] = NarratedVideo(
                _numbered(timed, rejections), tuple(ego4d.summaries(raws[uid]))
            )
    if not videos:
        num_untimed = sum(uid in raws for uid in uids)
        raise LmmsEgoplanError(
            f"{path}: no usable narrations for the videos that are in Goal-Step and the folder, "
            f"for example {', '.join(list(uids)[:3])}. The file has {len(raws)} videos, for "
            f"example {', '.join(map(quoted, list(raws)[:3]))}. Needed videos in it whose "
            f"narrations all lack a timestamp_sec: {num_untimed}"
        )
    return videos, rejections


def _numbered(
    timed: Sequence[tuple[float, str, Any]], rejections: list[Rejection]
) -> tuple[Narration, ...]:
    narrations: list[Narration] = []
    times_and_texts: set[tuple[float, str]] = set()
    for seconds, location, text in timed:
        problem, detail = ego4d.sentence_problem(text)
        plain = (
            _TAG.sub("", _UNSURE.sub("something", ego4d.without_wearer(text)))
            if is_text(text)
            else ""
        )
        if plain and (seconds, plain.casefold()) in times_and_texts:
            problem = REPEATED
            detail = quoted(text)
            plain = ""
        times_and_texts.add((seconds, plain.casefold()))
        if problem:
            rejections.append(Rejection("narration", problem, location, detail))
        narrations.append(Narration(len(narrations) + 1, seconds, plain, problem))
    return tuple(narrations)


@dataclass(frozen=True)
class Step(Cut):
    """A step without labels.

    Attributes:
        video: Goal-Step's video.
        narration: The narration. Its time is the step's `end_sec` (sec. 3.3, Temporal Truncation
            Strategy). For `start_sec`, see `find_steps`.
        leaf: Goal-Step's segment around this time, and its purpose.
        before: The preceding context narrations, by time.
        after: The following context narrations, by time. All are strictly later.
    """

    video: Video
    narration: Narration
    leaf: Leaf
    before: tuple[Narration, ...]
    after: tuple[Narration, ...]

    @property
    def outcome_sec(self) -> float:
        """End of the outcome: that of Goal-Step's segment, or the next narration if it is earlier.

        Our choice.
        """
        return min(self.leaf[0].end_time, self.after[0].seconds)


def find_steps(
    videos: Sequence[Video], narrated: Mapping[str, NarratedVideo]
) -> tuple[list[Step], list[Rejection]]:
    """Make a step for each of the camera wearer's narrations within a segment of Goal-Step.

    A step ends at the narration's time (sec. 3.3). The paper does not say where it starts. Here it
    starts at the previous narration or at the start of Goal-Step's segment, whichever is later. It
    never starts after the start of EgoVLP's segment of this narration. A video's last narration
    makes no step, because the next step is unknown.

    Args:
        videos: Goal-Step's videos; those without narrations make no steps.
        narrated: Narrations by uid.
    """
    steps: list[Step] = []
    rejections: list[Rejection] = []
    times = {}
    for uid, video_narrations in narrated.items():
        times[uid] = [narration.seconds for narration in video_narrations.narrations]
    clips = ego4d.segments(times, ego4d.EGO4D_MEAN_GAP)
    for video in videos:
        uid = video.video_uid
        if uid not in narrated:
            continue
        leaves = leaves_of(video)
        narrations = narrated[uid].narrations
        for index, narration in enumerate(narrations):
            if narration.problem:
                continue
            latest = clips[uid][index][0] if uid in clips else narration.seconds
            step_or_reason = _step(video, leaves, narrations, index, latest)
            if isinstance(step_or_reason, Step):
                steps.append(step_or_reason)
            else:
                where = f"{uid}, narration {narration.number} at {narration.seconds} s"
                rejections.append(Rejection("step", step_or_reason, where, narration.text))
    return steps, rejections


def _step(
    video: Video, leaves: Sequence[Leaf], narrations: Sequence[Narration], index: int, latest: float
) -> Step | str:
    """Make the step of a narration, starting no later than `latest`.

    Or return the reason for its rejection.
    """
    narration = narrations[index]
    seconds = narrations[index].seconds
    enclosing_leaves = [
        leaf for leaf in leaves if leaf[0].start_time <= seconds <= leaf[0].end_time
    ]
    later_narrations = (
        neighbour
        for neighbour in narrations[index + 1 :]
        if neighbour.seconds > seconds and neighbour.text
    )
    after = tuple(islice(later_narrations, NEIGHBOURS))
    if not enclosing_leaves:
        return NO_STEP
    leaf = min(enclosing_leaves, key=lambda leaf: leaf[0].end_time - leaf[0].start_time)
    if not leaf[0].counts:
        return IRRELEVANT
    if not after:
        return LAST
    earlier_narrations = narrations[:index][::-1]
    previous_seconds = next(
        (neighbour.seconds for neighbour in earlier_narrations if neighbour.seconds < seconds), 0.0
    )
    start = max(0.0, min(max(previous_seconds, leaf[0].start_time), latest))
    if seconds - start < 1 / FPS:
        return TOO_SHORT
    before = tuple(
        islice((neighbour for neighbour in earlier_narrations if neighbour.text), NEIGHBOURS)
    )[::-1]
    step_id = f"{step_prefix(video.video_uid)}_n{narration.number}"
    return Step(
        step_id, video.video_uid, round(start, 6), seconds, video, narration, leaf, before, after
    )
