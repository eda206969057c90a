"""Write the dataset that the tasks load, from annotated steps and their videos (sec. 3.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from lmms_egoplan.benchmarks.egointent import annotation_files
from lmms_egoplan.benchmarks.egointent.annotation_files import HUB
from lmms_egoplan.benchmarks.egointent.frames import history_start, step_frames
from lmms_egoplan.benchmarks.egointent.records import UNKNOWN, Record, check_records
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.coverage import set_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage, MissingFootage, find_footage
from lmms_egoplan.media.frames import FrameError, frame_times
from lmms_egoplan.media.layout import Layout, all_missing, count_files, no_folder
from lmms_egoplan.storage import compare_counts, fingerprint, records_digest, refusal, table

SPLIT = "test"
LEAKAGE = "leakage"
# Seconds after the cut that the split `LEAKAGE` shows, and the name of its steps. This project's
# choice.
LEAKAGE_SEC = 2
LEAKED_STEPS = "steps with frames after the cut"
# The paper's numbers for the counts (secs. 3.1 and 3.4; durations in seconds).
PAPER = {
    "steps": EGOINTENT.official[SPLIT],
    "scenarios": 15,
    "videos": 32,
    "median_sec": 1.87,
    "mean_sec": 3.42,
    "p75_sec": 3.57,
    "above_10_sec": 183,
}
# Labels of the counts whose label differs from their name.
LABELS = {
    "median_sec": "median duration (s)",
    "mean_sec": "mean duration (s)",
    "p75_sec": "75th percentile (s)",
    "above_10_sec": "above 10 s",
}
# Tolerance in seconds by which a step may start before its video or end after it. Annotated times
# are rounded, and the duration of the last frame is unknown.
TOLERANCE = 0.1


def prepare_egointent(
    annotations: str | Path,
    videos: Path,
    *,
    skip_missing: bool = False,
    verify: bool = False,
    field_by_key: Mapping[str, str] | None = None,
    leakage: bool = False,
) -> dict[str, Any]:
    """Check annotations and videos, and write the split below the data root.

    Every step must lie inside its video by the frames' time stamps, within `TOLERANCE`, and contain
    a frame.

    Args:
        annotations: See `load`.
        videos: Folder with ``<video_id>.mp4``.
        skip_missing: Skip steps without footage or with damaged frames, instead of raising an
            error.
        verify: Decode every frame that a task may read: the frames of the steps at 6 per second.
        field_by_key: See `fields_of_keys`.
        leakage: Write the split `LEAKAGE` instead. Its steps end up to `LEAKAGE_SEC` after the
            recorded cut, at the latest with the video. Steps without a frame after the cut are
            skipped.

    Returns:
        The summary, which is also stored with the split:

        - ``benchmark``, ``split``, ``prepared`` (UTC, ISO 8601), ``annotations``
        - ``mapping``: the keys that each field was read from
        - ``split_size``: steps in the file
        - ``question_set``: see `set_of`; ``records_digest``: digest of the file's steps
        - ``questions``: prepared steps; ``unverified``: number of prepared steps that are
          unverified
        - ``fingerprint``: changes if a prepared step or its video file changes; the same for a copy
          in another folder
        - ``missing``: ``video``, ``reason`` and ``step_ids`` for each video that lacks footage
        - ``verified``: true if all frames were decoded, else absent
        - ``counts``: for each row of `PAPER` the numbers ``prepared``, ``annotations`` and
          ``paper``, and ``matches``, which is true if file and paper agree. For Goal-Step steps,
          ``categories`` replaces ``scenarios``; its ``paper`` and ``matches`` are None.
        - ``without_leakage``: number of steps without a frame after the cut; only in the split
          `LEAKAGE`

        Durations are rounded to hundredths. The 75th percentile is interpolated linearly
        (`statistics.quantiles`, inclusive).

        A row of the split has `Record`'s fields, ``video_path`` (absolute), ``num_frames`` (frames
        of the step at 6 per second, before any limit), ``num_frames_with_history`` (the same with
        the history), ``split_size`` and ``question_set``. In the split `LEAKAGE`, ``end_sec`` is
        `LEAKAGE_SEC` after ``cut_sec``, the recorded cut. ``leaked_frames`` of the frames are at or
        after the cut, and ``leaked_sec`` are the seconds from the cut to the last of them.

    Raises:
        LmmsEgoplanError: The annotations are wrong, or the folder or footage is missing. Nothing is
            written.
    """
    loaded = annotation_files.load(annotations, field_by_key)
    steps = check_records(annotations, loaded)
    footage, missing = record_footage(
        steps,
        videos,
        skip_missing=skip_missing,
        verify=verify,
        seconds_after=LEAKAGE_SEC if leakage else 0,
    )
    prepared = [record for record in steps if record.step_id in footage]
    digest = records_digest(steps)
    question_set = set_of(
        has_counts=len(steps) == PAPER["steps"],
        digest=digest,
        published=EGOINTENT.digests.get(SPLIT),
    )
    of_file = {"split_size": len(steps), "question_set": question_set}
    rows = _rows(prepared, footage, of_file)
    optional: dict[str, Any] = {"verified": True} if verify else {}
    if leakage:
        all_rows = len(rows)
        rows = _leaked_rows(rows, footage)
        optional["without_leakage"] = all_rows - len(rows)
        shown_ids = {row["step_id"] for row in rows}
        prepared = [record for record in prepared if record.step_id in shown_ids]
        if not rows:
            raise LmmsEgoplanError(
                f"{annotations}: no video has a frame after a step's cut; --leakage needs some"
            )
    is_hub = str(annotations) == HUB
    return EGOINTENT.save(
        LEAKAGE if leakage else SPLIT,
        table(rows),
        annotations=annotation_files.HUB_DATASET if is_hub else str(Path(annotations).resolve()),
        mapping=annotation_files.mapping_lines(loaded, Record.model_fields),
        **of_file,
        records_digest=digest,
        questions=len(prepared),
        unverified=sum(record.unverified for record in prepared),
        fingerprint=fingerprint(
            [_without_path(row), footage[row["step_id"]].version] for row in rows
        ),
        missing=[
            {"video": lost.video, "reason": lost.reason, "step_ids": lost.ids} for lost in missing
        ],
        counts=compare_counts(_counts(prepared), _counts(steps), "annotations", PAPER),
        **optional,
    )


def _without_path(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is the same if the videos are in another folder."""
    return {name: value for name, value in row.items() if name != "video_path"}


@dataclass(frozen=True)
class Cut:
    """The part of a video that shows a step.

    Attributes:
        step_id: Id of the step.
        video_id: Id of the video.
        start_sec: First second that is shown.
        end_sec: Second at which the part ends.
    """

    step_id: str
    video_id: str
    start_sec: float
    end_sec: float


def record_footage(
    records: Sequence[Record],
    videos: Path,
    *,
    skip_missing: bool,
    verify: bool = False,
    seconds_after: float = 0,
) -> tuple[dict[str, Footage], list[MissingFootage]]:
    """Find the footage of records by step id, and the steps that lack it.

    Raises:
        LmmsEgoplanError: The folder is missing, or steps lack footage. With `skip_missing`, only if
            all steps lack it.
    """
    layout = _layout(records)
    if videos.is_dir() and not layout.count(videos):
        raise LmmsEgoplanError(all_missing(videos, layout))
    footage, missing = find_step_footage(
        records, videos, verify=verify, seconds_after=seconds_after
    )
    if missing and not (skip_missing and footage):
        state = "no footage or damaged frames" if verify else "no footage"
        entries = [
            f"{lost.video} (steps: {len(lost.ids)}, first {lost.ids[0]!r}): {lost.reason}"
            for lost in missing
        ]
        num_steps = sum(len(lost.ids) for lost in missing)
        num_videos = len({lost.video for lost in missing})
        summary = f"{num_steps} of {len(records)} steps have {state}, in {num_videos} videos:"
        how = "add the videos or correct the annotations, or skip these steps"
        raise LmmsEgoplanError(refusal(summary, entries, how, "step", skip_missing=skip_missing))
    return footage, missing


def find_step_footage(
    cuts: Sequence[Cut | Record], videos: Path, *, verify: bool = False, seconds_after: float = 0
) -> tuple[dict[str, Footage], list[MissingFootage]]:
    """Find the footage of steps by step id, and the steps that lack it; see `find_footage`.

    Args:
        cuts: The steps.
        videos: Folder with ``<video_id>.mp4``.
        verify: See `find_footage`.
        seconds_after: Seconds after the end of a step that also belong to its footage, as far as
            the video has them.

    Raises:
        LmmsEgoplanError: The folder is missing.
    """
    if not videos.is_dir():
        raise LmmsEgoplanError(no_folder(videos, _layout(cuts)))
    find = partial(_find_video, videos, seconds_after)
    return find_footage(cuts, attrgetter("step_id"), attrgetter("video_id"), find, verify=verify)


def _layout(cuts: Sequence[Cut | Record]) -> Layout:
    """Describe the expected content of the videos' folder."""
    ids = list(dict.fromkeys(cut.video_id for cut in cuts))
    files = [f"{video_id}.mp4" for video_id in ids]
    return Layout(
        option="--videos",
        names=ids,
        item="video",
        example=files[0],
        count=partial(count_files, names=files),
        url="https://ego4d-data.org",
    )


def _find_video(
    videos: Path, seconds_after: float, cuts: Sequence[Cut | Record]
) -> dict[str, Footage | str]:
    """Return, by step id, the footage of one video's steps, or a message about the problem."""
    path = resolve_inside(videos, f"{cuts[0].video_id}.mp4")
    times = frame_times(path)
    # Assume that the last frame lasts as long as the one before it.
    last_duration = times[-1] - times[-2] if len(times) > 1 else 0.0
    start = times[0]
    end = times[-1] + last_duration
    version = file_version(path.stat())
    footage_or_problem: dict[str, Footage | str] = {}
    for cut in cuts:
        try:
            if cut.start_sec < start - TOLERANCE or cut.end_sec > end + TOLERANCE:
                raise FrameError(
                    f"{path}: step {cut.step_id!r}, {cut.start_sec:.2f} to {cut.end_sec:.2f} s, "
                    f"lies outside of the video, {start:.2f} to {end:.2f} s"
                )
            frames = step_frames(path, cut.start_sec, cut.end_sec + seconds_after)
            footage_or_problem[cut.step_id] = Footage(path, version, frames)
        except FrameError as error:
            footage_or_problem[cut.step_id] = str(error)
    return footage_or_problem


def _rows(
    records: Sequence[Record], footage: dict[str, Footage], of_file: dict[str, Any]
) -> list[dict[str, Any]]:
    has_origin = any(record.origin is not None for record in records)
    frames_with_history = _frames_with_history(records, footage)
    rows: list[dict[str, Any]] = []
    for record in records:
        row = record.model_dump(exclude=None if has_origin else {"origin"})
        if not record.is_goalstep:
            row["scenario"] = record.scenario or UNKNOWN
        row["environment"] = record.environment or UNKNOWN
        row["video_path"] = str(footage[record.step_id].path)
        row["num_frames"] = len(footage[record.step_id].frames)
        row["num_frames_with_history"] = frames_with_history[record.step_id]
        rows.append(row | of_file)
    return rows


def _frames_with_history(
    records: Sequence[Record], footage: Mapping[str, Footage]
) -> dict[str, int]:
    """Count the frames of each step and its history."""
    counts: dict[str, int] = {}
    # Sorted, so that each video's frame times are read once.
    for record in sorted(records, key=attrgetter("video_id")):
        path = footage[record.step_id].path
        frames = step_frames(path, history_start(path, record.start_sec), record.end_sec)
        counts[record.step_id] = len(frames)
    return counts


def _leaked_rows(
    rows: Sequence[dict[str, Any]], footage: Mapping[str, Footage]
) -> list[dict[str, Any]]:
    """Return the rows of the split `LEAKAGE`: of the steps with a frame after the cut."""
    leaked_rows: list[dict[str, Any]] = []
    for row in rows:
        leaked = _leaked(row, footage[row["step_id"]].frames)
        if leaked["leaked_frames"]:
            leaked_rows.append(row | leaked)
    return leaked_rows


def _leaked(row: Mapping[str, Any], frames: Sequence[int]) -> dict[str, Any]:
    """Return what differs in a row of the split `LEAKAGE`."""
    cut = row["end_sec"]
    times = frame_times(row["video_path"])
    leaked = [times[frame] - cut for frame in frames if times[frame] >= cut]
    return {
        "cut_sec": cut,
        "leaked_sec": max(leaked, default=0.0),
        "leaked_frames": len(leaked),
        "end_sec": cut + LEAKAGE_SEC,
        "origin": LEAKED_STEPS,
    }


def _counts(records: Sequence[Record]) -> dict[str, float]:
    is_goalstep = any(record.is_goalstep for record in records)
    groups = {record.category if is_goalstep else record.scenario for record in records}
    return {
        "steps": len(records),
        "categories" if is_goalstep else "scenarios": len(groups - {None}),
        "videos": len({record.video_id for record in records}),
        **duration_counts([round(record.end_sec - record.start_sec, 6) for record in records]),
    }


def duration_counts(durations: Sequence[float]) -> dict[str, float]:
    """Return the numbers of section 3.4 about durations, in seconds rounded to hundredths.

    Args:
        durations: Durations of steps in seconds, at least one.
    """
    if len(durations) > 1:
        _, _, third_quartile = quantiles(durations, n=4, method="inclusive")
    else:
        (third_quartile,) = durations
    return {
        "median_sec": round(median(durations), 2),
        "mean_sec": round(fmean(durations), 2),
        "p75_sec": round(third_quartile, 2),
        "above_10_sec": sum(duration > 10 for duration in durations),
    }
