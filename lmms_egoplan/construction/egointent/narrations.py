"""Narrations of Ego4D, and the steps at their times: where each is cut, and what stands around it (sec. 3.3)."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.prepare import Cut
from lmms_egoplan.benchmarks.egointent.records import step_prefix
from lmms_egoplan.benchmarks.egointent.visuals import FPS
from lmms_egoplan.construction import ego4d
from lmms_egoplan.construction.egointent.goalstep import IRRELEVANT, LAST, Leaf, Video, leaves_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, shown

_TAG = re.compile(r"#\s*(?=[a-z])", re.IGNORECASE)
_UNSURE = re.compile(r"#\s*unsure\b", re.IGNORECASE)
_ACTOR = re.compile(r"^c\s+", re.IGNORECASE)

SECOND_PASS = "second pass over the same video"
REPEATED = "same narration at the same time"
# Narrations before and after a step that are its context: ours, the paper has no number.
NEIGHBOURS = 8

NO_STEP = "narration outside of Goal-Step's steps"
TOO_SHORT = "narration with less than a frame before it"


@dataclass(frozen=True)
class Narration:
    """One narration.

    number: its place in time among its video's, from 1.
    seconds: its time in the video.
    text: in one line, without tags: "C picks a pan".
    problem: why no step is made of it, though it is context of others; "" for nothing.
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
    """A video's narrations by time, and the texts that sum up its parts."""

    narrations: tuple[Narration, ...]
    summaries: tuple[str, ...]


def read_narrations(path: Path, uids: Collection[str]) -> tuple[dict[str, NarratedVideo], list[Rejection]]:
    """Read the narrations of some videos.

    Of a video's passes, which narrate the same, the first one with narrations counts. Narrations of other people than
    the camera wearer (``#O``), of unclear objects (``#unsure``), and in other letters than Latin stay as context.

    Args:
        path: Ego4D's ``narration.json``.
        uids: Ids of the videos.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another form, or none of the videos has narrations with a time.
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
        (name, first), *others = passes
        rejections += [
            Rejection("narration", SECOND_PASS, f"{where}, {other}", f"{len(narrations)} narrations")
            for other, narrations in others
        ]
        timed: list[tuple[str, Any]] = []
        for number, raw in enumerate(first):
            place = f"{where}, {name}.narrations[{number}]"
            if problem := _untimed(raw):
                rejections.append(Rejection("narration", ego4d.NO_TIME, place, problem))
            else:
                timed.append((place, raw))
        if timed:
            videos[uid] = NarratedVideo(_by_time(timed, rejections), tuple(ego4d.summaries(raws[uid])))
    if not videos:
        empty = sum(uid in raws for uid in uids)
        raise LmmsEgoplanError(
            f"{path}: no narrations of any of the videos that Goal-Step and the folder have, such as "
            f"{', '.join(list(uids)[:3])}; the file has {len(raws)} videos, such as "
            f"{', '.join(map(shown, list(raws)[:3]))}, and {empty} of the wanted ones, "
            "without narrations that have a timestamp_sec"
        )
    return videos, rejections


def _untimed(raw: Any) -> str:
    """Return what is wrong with a narration's time; "" for nothing."""
    if not isinstance(raw, dict):
        return f"expected an object, found {shown(raw)}"
    time = raw.get("timestamp_sec")
    return "" if ego4d.is_time(time) else f"timestamp_sec: expected seconds, a number from 0; found {shown(time)}"


def _by_time(raws: list[tuple[str, Any]], rejections: list[Rejection]) -> tuple[Narration, ...]:
    narrations: list[Narration] = []
    known: set[tuple[float, str]] = set()
    for place, raw in sorted(raws, key=lambda entry: entry[1]["timestamp_sec"]):
        text, seconds = raw.get("narration_text"), float(raw["timestamp_sec"])
        problem, detail = ego4d.sentence_problem(text)
        plain = _TAG.sub("", _UNSURE.sub("something", ego4d.without_wearer(text))) if is_text(text) else ""
        if plain and (seconds, plain.casefold()) in known:
            problem, detail, plain = REPEATED, shown(text), ""
        known.add((seconds, plain.casefold()))
        if problem:
            rejections.append(Rejection("narration", problem, place, detail))
        narrations.append(Narration(len(narrations) + 1, seconds, plain, problem))
    return tuple(narrations)


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
    clips = ego4d.segments(times, ego4d.EGO4D_MEAN_GAP)
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
