"""Build records in EgoIntent's format from Ego4D Goal-Step's annotations.

Steps and goals are real; the labels are unverified.

Goal-Step (Song et al., "Ego4D Goal-Step: Toward Hierarchical Understanding of Procedural
Activities") has a goal for each video, steps below it, and substeps below some steps. EgoIntent
follows its segmentation, but uses Ego4D's narrations for the texts and, by their times, for the
points of truncation (sec. 3.3). These records use Goal-Step's own texts and end shortly before a
segment's end, so they are longer. They are *Goal-Step steps*, not EgoIntent's.
"""

import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import Field

from lmms_egoplan.benchmarks.egointent.frames import FPS
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, OUTCOME_KEY
from lmms_egoplan.benchmarks.egointent.records import (
    GOALSTEP_URL,
    VIDEO_ID,
    Label,
    Record,
    step_prefix,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside, write_whole
from lmms_egoplan.jsonl import check_record, json_lines, read_json
from lmms_egoplan.validation import Checked, Expected, Seconds, listing, quoted

# Goal-Step does not say where a video was taken. The goal category, or the part before its colon,
# implies it.
_ENVIRONMENTS = {
    "COOKING": "indoor",
    "HOUSEKEEPING": "indoor",
    "USE_ELECTRONICS": "indoor",
    "MISC:STUDY(READ,WRITE)": "indoor",
    "GARDENING": "outdoor",
}
_VIDEO_SUFFIXES = (".mp4", ".mkv", ".mov", ".avi", ".webm")
_GROUP = "grp-"

NO_VIDEO = "video is not in the folder"
NO_ENVIRONMENT = "goal category does not imply indoors or outdoors"
IRRELEVANT = "annotated as irrelevant to the goal"
TOO_SHORT = "too short for the truncation"
LAST = "no later step"
ALIKE = "two of the three labels have the same text"


class Segment(Checked):
    """A segment of a video, in seconds. The segments below a step are its substeps."""

    start_time: Seconds
    end_time: Seconds
    step_description: Label
    is_relevant: Any = None
    segments: Annotated[Any, Predicate(operator.not_), Expected("none below a substep")] = None

    @property
    def counts(self) -> bool:
        """True unless annotated as irrelevant to the goal."""
        return self.is_relevant != "irrelevant"


class _Step(Segment):
    segments: list[Segment] = Field(default_factory=list)


class Video(Checked):
    """A video with its goal and the steps toward it."""

    video_uid: Annotated[str, Predicate(VIDEO_ID.fullmatch), Expected("an identifier")]
    goal_category: Label
    goal_description: Label
    segments: list[_Step]

    @property
    def category(self) -> str:
        """The goal category in words, without its group: "make flatbread"."""
        group, name = self._words
        return name or group

    @property
    def event(self) -> str:
        """The goal category in words: "cooking: make flatbread"."""
        group, name = self._words
        return f"{group}: {name}" if name else group

    @property
    def _words(self) -> tuple[str, str]:
        group, _, name = self.goal_category.replace("_", " ").lower().partition(":")
        return group.strip(), name.strip()


@dataclass(frozen=True)
class Built:
    """The result of `build_records`.

    Attributes:
        records: The Goal-Step steps.
        rejected: Number of rejected segments by reason.
        num_videos: Number of videos in Goal-Step's file.
        absent: Ids of the videos that are not in the folder.
        outcomes: By step id, the end of the outcome, seconds: the end of the segment, or the start
            of the next one if that is earlier. This project's choice.
    """

    records: list[Record]
    rejected: Counter[str]
    num_videos: int
    absent: list[str]
    outcomes: dict[str, float]


Leaf = tuple[Segment, str]
"""A segment without substeps, and its purpose: the text of its step, or of the goal."""


def build_records(goalstep: Path, videos: Path, before_end: float) -> Built:
    """Build records of the steps whose videos are in the folder.

    Each substep, and each step without substeps, becomes a record:

    - Local intent: the segment's text. Global intent: the text of the substep's step, or of the
      goal for a step.
    - Next-step plan: the text of the video's first segment that starts at or after the truncation
      point, so that no part of it is visible. Segments irrelevant to the goal are ignored.
    - ``end_sec``: `before_end` seconds before the segment's end. At least one frame at `FPS` must
      fit before it.
    - ``step_id``: the video's first eight characters and the segment's number by time, independent
      of rejected segments.
    - Category: the goal category in words, without its group. Event: the category with its group.
      Goal: the goal's text.
    - There is no scenario: it is a place (Fig. 7), which Goal-Step does not name.

    Args:
        goalstep: A file such as ``goalstep_valid_public.json``.
        videos: Folder with ``<video_uid>.mp4``.
        before_end: Seconds, above 0.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another form; the message lists the first
            problems. Or `before_end` is not above 0, or no record is left. For `videos`, see
            `absent_videos`.
    """
    if not 0 < before_end < math.inf:
        raise LmmsEgoplanError(f"--before-end {before_end}: expected seconds, a number above 0")
    outcomes: dict[str, float] = {}
    records: list[Record] = []
    rejected: Counter[str] = Counter()
    loaded = read_goalstep(goalstep)
    absent = absent_videos(loaded, videos)
    for video in loaded:
        leaves = leaves_of(video)
        category = video.goal_category
        environment = _ENVIRONMENTS.get(category) or _ENVIRONMENTS.get(category.split(":")[0])
        if video.video_uid in absent:
            rejected[NO_VIDEO] += len(leaves)
        elif environment is None:
            rejected[NO_ENVIRONMENT] += len(leaves)
        else:
            for index in range(len(leaves)):
                # It also adds to `outcomes`.
                result = _record(video, leaves, index, environment, before_end, outcomes)
                if isinstance(result, Record):
                    records.append(result)
                else:
                    rejected[result] += 1
    if not records:
        reasons = [f"{reason}: {count} steps" for reason, count in rejected.items()]
        raise LmmsEgoplanError(f"{goalstep}: no steps left to write. Rejected:\n{listing(reasons)}")
    return Built(records, rejected, len(loaded), absent, outcomes)


def absent_videos(loaded: Sequence[Video], folder: Path) -> list[str]:
    """List the ids of the videos that are not in a folder.

    Raises:
        LmmsEgoplanError: The folder does not exist or contains none of the videos, or a video lies
            outside of it.
    """
    if not folder.is_dir():
        raise LmmsEgoplanError(
            f"--videos {folder}: folder not found; it must contain <video_uid>.mp4"
        )
    uids = [video.video_uid for video in loaded]
    absent = [uid for uid in uids if not resolve_inside(folder, f"{uid}.mp4").is_file()]
    if len(absent) < len(loaded):
        return absent
    present = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _VIDEO_SUFFIXES)
    summary = "none."
    if present:
        below = sum(path.parent != folder for path in present)
        subfolders = f" ({below} in subfolders, which are not searched)" if below else ""
        example = min(present, key=lambda path: path.parent != folder)
        summary = f"{len(present)}{subfolders}, for example {example.relative_to(folder)}."
    missing = describe_missing(absent, len(loaded))
    raise LmmsEgoplanError(f"--videos {folder}: {missing}\nVideos in the folder: {summary}")


def describe_missing(absent: Sequence[str], total: int) -> str:
    """Explain how many of the `total` videos are missing.

    Give an example of a file name, and say what grouped videos are.

    Args:
        absent: Ids of the missing videos, at least one.
        total: Number of Goal-Step's videos.
    """
    singles = [uid for uid in absent if not uid.startswith(_GROUP)]
    example = (singles or absent)[0]
    text = (
        f"not in the folder: {len(absent)} of Goal-Step's {total} videos, for example "
        f"{example}.mp4."
    )
    if len(singles) == len(absent):
        return text
    return (
        f"{text}\nGrouped videos among them: {len(absent) - len(singles)}. An id that starts with "
        f"{_GROUP} names several Ego4D videos joined end to end. Download all of Goal-Step's "
        "videos with Ego4D's downloader: ego4d --datasets full_scale --benchmarks goalstep -o DIR "
        f"({GOALSTEP_URL})"
    )


def write_records(records: Sequence[Record], outcomes: Mapping[str, float], path: Path) -> None:
    """Write Goal-Step steps as JSON Lines for `read_annotations`.

    The file is written completely or not at all.

    Args:
        records: The steps.
        outcomes: See `Built`.
        path: The file.

    Raises:
        OSError: The file cannot be written.
    """
    steps = (
        record.model_dump(exclude={"scenario"}) | {OUTCOME_KEY: outcomes[record.step_id]}
        for record in records
    )
    write_whole(path, json_lines(steps))


def summary_lines(built: Built, out: Path) -> Iterator[str]:
    """Yield the lines that the command prints after `write_records`."""
    reasons = "; ".join(f"{count}: {reason}" for reason, count in built.rejected.most_common())
    num_videos = len({record.video_id for record in built.records})
    yield (
        f"{len(built.records)} Goal-Step steps of {num_videos} videos, unverified, written to {out}"
    )
    yield f"Rejected: {reasons or 'none'}"
    if built.absent:
        yield f"Videos {describe_missing(built.absent, built.num_videos)}"


def _record(
    video: Video,
    leaves: Sequence[Leaf],
    index: int,
    environment: str,
    before_end: float,
    outcomes: dict[str, float],
) -> Record | str:
    """Build the record of a leaf and add its outcome, or return the reason for its rejection."""
    segment, purpose = leaves[index]
    end = round(segment.end_time - before_end, 6)
    if not segment.counts:
        return IRRELEVANT
    if end - segment.start_time < 1 / FPS:
        return TOO_SHORT
    following = next(
        (later for later, _ in leaves if later.start_time >= end and later.counts), None
    )
    if following is None:
        return LAST
    labels = (segment.step_description, purpose, following.step_description)
    if len({" ".join(label.casefold().split()) for label in labels}) < len(labels):
        return ALIKE
    step_id = f"{step_prefix(video.video_uid)}_{index + 1}"
    # The end is rounded, so the next segment may start before it.
    outcomes[step_id] = max(end, min(segment.end_time, following.start_time))
    return Record(
        step_id=step_id,
        video_id=video.video_uid,
        start_sec=segment.start_time,
        end_sec=end,
        **dict(zip(FIELDS, labels, strict=True)),
        category=video.category,
        environment=environment,
        event=video.event,
        goal=video.goal_description,
        unverified=True,
    )


def leaves_of(video: Video) -> list[Leaf]:
    """List a video's segments without substeps, by time."""
    leaves = [
        (segment, video.goal_description if segment is step else step.step_description)
        for step in video.segments
        for segment in step.segments or [step]
    ]
    return sorted(leaves, key=lambda leaf: (leaf[0].start_time, leaf[0].end_time))


def read_goalstep(path: Path) -> list[Video]:
    """Read and check the videos of Goal-Step's file.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another form; the message lists the first
            problems.
    """
    content = read_json(path, "annotations")
    raws = content.get("videos") if isinstance(content, dict) else None
    if not isinstance(raws, list) or not raws:
        raise LmmsEgoplanError(
            f"{path}: expected an object with a list of videos, as in {GOALSTEP_URL}; "
            f"found {quoted(content)}"
        )
    videos: list[Video] = []
    problems: list[str] = []
    first_use: dict[str, int] = {}
    for number, raw in enumerate(raws, 1):
        video, flaws = check_record(Video, raw)
        if video is not None:
            videos.append(video)
            first_number = first_use.setdefault(step_prefix(video.video_uid), number)
            if first_number != number:
                uid = quoted(video.video_uid)
                flaws.append(
                    f"video_uid: {uid} has the same step ids as video {first_number}; rename one"
                )
        problems += [f"video {number}, {flaw}" for flaw in flaws]
    if problems:
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problem(s) in {len(raws)} videos; is it one of the files of "
            f"{GOALSTEP_URL}?\n"
            f"{listing(problems)}"
        )
    return videos
