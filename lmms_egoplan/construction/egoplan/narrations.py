"""Read EPIC-KITCHENS-100's and Ego4D's narrations as timed actions (sec. 3.1)."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from sys import intern
from typing import Any

from lmms_egoplan.benchmarks.egoplan.footage.sources import VideoInfo, record_problem
from lmms_egoplan.benchmarks.egoplan.records import (
    EGO4D,
    EGO4D_FPS,
    EPIC_KITCHENS,
    FIRST_FRAME,
    VIDEO_ID,
    frames_per_second,
)
from lmms_egoplan.benchmarks.egoplan.statistics import verb_and_object
from lmms_egoplan.benchmarks.egoplan.wording import tidy
from lmms_egoplan.construction import ego4d
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_csv
from lmms_egoplan.rejections import Rejection, counted
from lmms_egoplan.text import cell_text
from lmms_egoplan.validation import quoted

# Tolerance for frame numbers, in seconds. Official frame numbers differ from their times by at most
# one frame. The tolerance must stay below 0.5 s, the time between the visual input and the answer.
_SECONDS_OFF = 0.1
_COLUMNS = (
    "video_id",
    "start_timestamp",
    "stop_timestamp",
    "start_frame",
    "stop_frame",
    "narration",
)
_TIMESTAMP = re.compile(r"(\d{1,3}):([0-5]\d):([0-5]\d(?:\.\d{1,6})?)", re.ASCII)

NO_FRAMES = "narration without frame numbers"
NO_LENGTH = "narration that does not end after its start"
NO_RATE = "narration whose frame numbers or times do not match its video"
UNKNOWN_VIDEO = "narration without a valid video id"
NO_GAP = "video whose narrations all have the same time"


@dataclass(frozen=True, slots=True)
class Action:
    """A narrated action.

    Attributes:
        text: A brief verb-object phrase.
        start, stop: Times in hundredths of a second.
        start_frame, stop_frame: First and last frame, both included.
        verb: Root verb of the text.
        object: Object of the text; "" if there is none.
    """

    text: str
    start: int
    stop: int
    start_frame: int
    stop_frame: int
    verb: str
    object: str


@dataclass(frozen=True)
class Video:
    """A narrated video.

    Attributes:
        source: Source of the video.
        video_id: Id of the video.
        fps: Rate of the frame numbers, in frames per second.
        actions: The actions, ordered by start.
        unknown: Start and stop, in hundredths of a second, of actions whose narrations cannot be
            used.
        scene: Where the video was recorded; None if unknown.
    """

    source: str
    video_id: str
    fps: float
    actions: tuple[Action, ...]
    unknown: tuple[tuple[int, int], ...] = ()
    scene: str | None = None


@dataclass(frozen=True)
class Sentence:
    """One of Ego4D's narrations with its segment, in seconds."""

    where: str
    text: str
    start: float
    stop: float


def read_epic_kitchens(
    path: Path, official: Mapping[str, VideoInfo] = {}
) -> tuple[list[Video], list[Rejection]]:
    """Read a CSV file in EPIC-KITCHENS-100's layout; its rows may be in any order.

    Verbs and objects come from the columns ``verb`` and ``noun``, if present. A scene is a
    participant's kitchen.

    Args:
        official: EPIC-KITCHENS' videos. Narrations must lie within them; not checked if empty.

    Raises:
        LmmsEgoplanError: The file cannot be read, columns are missing or duplicate, or no narration
            can be used. Or most frame numbers of a video contradict the times (see
            `frames_per_second`) or `official`.
    """
    lines = read_csv(path, "narrations", strict=True)
    _, columns = next(lines, (0, []))
    _check_columns(path, columns)
    rejections: list[Rejection] = []
    scenes: dict[str, str] = {}
    actions: dict[str, list[tuple[str, Action]]] = defaultdict(list)
    unknown: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, cells in lines:
        where = f"{path}, line {number}"
        row = dict(zip_longest(columns, cells))
        video_id = row["video_id"]
        start = hundredths(row["start_timestamp"])
        stop = hundredths(row["stop_timestamp"])
        problem, detail = _epic_problem(row, start, stop)
        if problem or start is None or stop is None:
            rejections.append(Rejection("narration", problem, where, detail))
            times = [time for time in (start, stop) if time is not None]
            if times and problem != UNKNOWN_VIDEO:
                unknown[video_id].append((min(times), max(max(times), min(times) + 1)))
            continue
        actions[video_id].append((where, _epic_action(row, start, stop)))
        scenes[video_id] = row.get("participant_id") or video_id.split("_")[0]
    videos: list[Video] = []
    for video_id, group in actions.items():
        fps = frames_per_second(EPIC_KITCHENS, video_id)
        misfits = _misfits(group, fps, video_id, official)
        for where, misfit in misfits.items():
            rejections.append(Rejection("narration", NO_RATE, where, misfit))
        fitting = []
        for where, action in group:
            if where in misfits:
                unknown[video_id].append((action.start, action.stop))
            else:
                fitting.append(action)
        unknown_times = tuple(unknown[video_id])
        videos.append(
            Video(EPIC_KITCHENS, video_id, fps, by_start(fitting), unknown_times, scenes[video_id])
        )
    if not videos:
        raise LmmsEgoplanError(f"{path}: {_none_left(rejections)}")
    return videos, rejections


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    """Raise if columns are missing or duplicate."""
    missing = [column for column in _COLUMNS if column not in columns]
    if missing:
        raise LmmsEgoplanError(
            f"{path}: no column {', '.join(missing)}; use the layout of EPIC_100_validation.csv"
        )
    duplicates = [column for column, count in Counter(columns).items() if count > 1]
    if duplicates:
        raise LmmsEgoplanError(
            f"{path}: duplicate column {', '.join(map(quoted, duplicates))}; remove all but one"
        )


def _epic_action(row: Mapping[str, Any], start: int, stop: int) -> Action:
    """Return the action of a row; its times are hundredths of a second."""
    text = tidy(cell_text(row["narration"]))
    verb, thing = verb_and_object(text)
    if row.get("verb") and row.get("noun"):
        # In "liquid:washing:up", the head noun is first.
        head, *modifiers = cell_text(row["noun"]).split(":")
        verb = cell_text(row["verb"]).split("-")[0]
        thing = " ".join([*modifiers, head])
    first = int(row["start_frame"])
    last = int(row["stop_frame"])
    # Interned, because millions of narrations have few distinct texts.
    return Action(intern(text), start, stop, first, last, intern(verb), intern(thing))


def _misfits(
    actions: Sequence[tuple[str, Action]],
    fps: int,
    video_id: str,
    official: Mapping[str, VideoInfo],
) -> dict[str, str]:
    """Return the problem of each action whose frame numbers do not fit, by its place in the file.

    Raises:
        LmmsEgoplanError: Most of the video's actions have the problem.
    """
    misfits = {}
    for where, action in actions:
        misfit = _misfit(action, fps, video_id, official)
        if misfit:
            misfits[where] = misfit
    if 2 * len(misfits) > len(actions):
        first = next(iter(misfits))
        raise LmmsEgoplanError(
            f"{first}: {misfits[first]}. {len(misfits)} of {len(actions)} narrations of {video_id} "
            "have this problem. Use EPIC-KITCHENS-100's own videos, and frame numbers at "
            f"{fps} frames per second"
        )
    return misfits


def _misfit(
    action: Action, fps: int, video_id: str, official: Mapping[str, VideoInfo]
) -> str | None:
    """Describe how an action's frame numbers contradict its times or its video.

    None if they do not.
    """
    ends = (
        ("start_frame", action.start_frame, action.start),
        ("stop_frame", action.stop_frame, action.stop),
    )
    for name, frame, time in ends:
        if abs(frame - time * fps / 100) > _SECONDS_OFF * fps:
            return f"{name}: {frame}, expected {time * fps // 100} at {timestamp(time)}"
    return record_problem(video_id, action.stop_frame, official, "stop_frame") if official else None


def _epic_problem(row: dict[str, str], start: int | None, stop: int | None) -> tuple[str, str]:
    """Return why a row cannot be used, and the wrong value. Both are "" if it can be used."""
    if not VIDEO_ID[EPIC_KITCHENS].fullmatch(row["video_id"] or ""):
        return UNKNOWN_VIDEO, f"video_id: {quoted(row['video_id'])}"
    if start is None or stop is None:
        field = "start_timestamp" if start is None else "stop_timestamp"
        return ego4d.NO_TIME, f"{field}: {quoted(row[field])}"
    first = FIRST_FRAME[EPIC_KITCHENS]
    for field in ("start_frame", "stop_frame"):
        if not re.fullmatch(r"\d{1,15}", row[field] or "", re.ASCII) or int(row[field]) < first:
            return NO_FRAMES, f"{field}: {quoted(row[field])}"
    if start >= stop or int(row["start_frame"]) > int(row["stop_frame"]):
        return (
            NO_LENGTH,
            f"stop_timestamp: {row['stop_timestamp']}, stop_frame: {row['stop_frame']}",
        )
    return ego4d.text_problem("narration", row["narration"])


def read_ego4d(
    path: Path, mean_gap: float | None, drop: Collection[str] = ()
) -> tuple[dict[str, list[Sentence]], dict[str, list[tuple[int, int]]], list[Rejection]]:
    """Read the camera wearer's narrations in Ego4D's ``narration.json``, by video.

    Each comes with its segment.

    A video may be narrated in several passes; the first pass with narrations is used. Narrations
    may be in any order.

    Args:
        mean_gap: See `segments`; None to compute it from the file's videos.
        drop: "unsure-actions", to drop only `#unsure` actions and not the goals around them.

    Returns:
        Sentences by video, ordered by time; start and stop of unknown actions by video, in
        hundredths of a second; and rejections.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another form, or no narration can be used.
    """
    videos = ego4d.read_narrated_videos(path, "EPIC-KITCHENS' CSV needs --source epic-kitchens")
    rejections: list[Rejection] = []
    timed = {uid: _timed(path, uid, video, rejections) for uid, video in videos.items()}
    times = {}
    for uid, narrations in timed.items():
        if narrations:
            times[uid] = [time for time, _, _ in narrations]
    segmented = ego4d.segments(times, mean_gap)
    sentences: dict[str, list[Sentence]] = {}
    unknown: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for uid, narrations in timed.items():
        if narrations and uid not in segmented:
            rejections.append(Rejection("narration", NO_GAP, f"{path}, {uid}"))
            continue
        for (start, stop), (_, where, text) in zip(segmented.get(uid, ()), narrations, strict=True):
            problem, detail = ego4d.sentence_problem(text)
            if problem:
                rejections.append(Rejection("narration", problem, where, detail))
                is_unsure = problem == ego4d.UNSURE and "unsure-actions" not in drop
                if is_unsure or problem in (ego4d.OTHER_LETTERS, ego4d.NO_TEXT):
                    unknown[uid].append((round(100 * start), round(100 * stop)))
            else:
                words = ego4d.without_wearer(text)
                sentences.setdefault(uid, []).append(Sentence(where, words, start, stop))
    if not sentences:
        raise LmmsEgoplanError(f"{path}: {_none_left(rejections)}")
    return sentences, unknown, rejections


def _timed(
    path: Path, uid: str, video: Any, rejections: list[Rejection]
) -> list[tuple[float, str, Any]]:
    """Return time, position and text of a video's narrations that have a time, ordered by time."""
    if not VIDEO_ID[EGO4D].fullmatch(uid):
        rejections.append(Rejection("narration", UNKNOWN_VIDEO, f"{path}, {quoted(uid)}"))
        return []
    name, narrations = next(ego4d.narrated_passes(video), ("", []))
    if not narrations:
        rejections.append(Rejection("narration", ego4d.NO_NARRATIONS, f"{path}, {uid}"))
    return ego4d.timed_narrations(f"{path}, {uid}, {name}", narrations, rejections)


def ego4d_action(sentence: Sentence, phrase: str) -> Action:
    """Build an action from a sentence and its phrase."""
    text = tidy(phrase)
    start, stop = (round(100 * seconds) for seconds in (sentence.start, sentence.stop))
    start_frame, stop_frame = (
        math.floor(seconds * EGO4D_FPS) for seconds in (sentence.start, sentence.stop)
    )
    verb, thing = verb_and_object(text)
    return Action(intern(text), start, stop, start_frame, stop_frame, intern(verb), intern(thing))


def _none_left(rejections: Sequence[Rejection]) -> str:
    """Explain in one line why no narration of a file can be used.

    Give an example for each reason.
    """
    first = {rejection.reason: rejection for rejection in reversed(rejections)}
    reasons = (
        f"{name}: {n}, such as {first[name].where}, {first[name].detail}"
        for name, n in counted(rejections)
    )
    return f"no narration can be used. {'; '.join(reasons) or 'The file contains none'}"


def hundredths(timestamp: Any) -> int | None:
    """Parse a text such as ``00:01:08.70`` into hundredths of a second.

    Return None for anything else.
    """
    parts = _TIMESTAMP.fullmatch(timestamp.strip()) if isinstance(timestamp, str) else None
    return (
        None
        if parts is None
        else round(100 * (3600 * int(parts[1]) + 60 * int(parts[2]) + float(parts[3])))
    )


def timestamp(time: int) -> str:
    """Format hundredths of a second.

    >>> timestamp(6870)
    '00:01:08.70'
    """
    seconds, fraction = divmod(time, 100)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:02}"


def by_start(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Sort actions by their starts."""
    return tuple(sorted(actions, key=lambda action: (action.start_frame, action.stop_frame)))


def narration_rows(videos: Iterable[Video]) -> Iterator[tuple[str | int, ...]]:
    """Yield the header and one row per action, in the layout of EPIC-KITCHENS-100's CSV."""
    yield *_COLUMNS, "verb", "noun"
    for video in videos:
        for action in video.actions:
            times = (
                timestamp(action.start),
                timestamp(action.stop),
                action.start_frame,
                action.stop_frame,
            )
            yield video.video_id, *times, action.text, action.verb, action.object
