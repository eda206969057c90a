"""Prepare annotated steps and their videos as a dataset that the tasks load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from lmms_egoplan.benchmarks.egointent import records
from lmms_egoplan.benchmarks.egointent.records import HUB, UNKNOWN, Record
from lmms_egoplan.benchmarks.egointent.visuals import history_start, step_frames
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.coverage import set_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage, Lost, find_footage
from lmms_egoplan.media.frames import FrameError, frame_times
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.storage import compare_counts, fingerprint, records_digest, refusal, table

SPLIT, LEAKAGE = "test", "leakage"
# Seconds after the cut that the split `LEAKAGE` shows, and the name of its steps. This project's
# choice.
LEAKAGE_SEC, LEAKED_STEPS = 2, "steps with frames after the cut"
_COUNTS = module_yaml(__file__)
PAPER = {
    "steps": EGOINTENT.official[SPLIT],
    **{name: count["paper"] for name, count in _COUNTS.items()},
}
LABELS = {name: count["label"] for name, count in _COUNTS.items() if "label" in count}
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
    loaded = records.load(annotations, field_by_key)
    steps = records.check_records(annotations, loaded)
    seconds = LEAKAGE_SEC if leakage else 0
    footage, missing = record_footage(
        steps, videos, skip_missing=skip_missing, verify=verify, seconds_after=seconds
    )
    prepared = [record for record in steps if record.step_id in footage]
    digest, has_counts = records_digest(steps), len(steps) == PAPER["steps"]
    question_set = set_of(
        has_counts=has_counts, digest=digest, published=EGOINTENT.digests.get(SPLIT)
    )
    of_file = {"split_size": len(steps), "question_set": question_set}
    rows = _rows(prepared, footage, of_file)
    rows = [row | _leaked(row, footage[row["step_id"]].frames) for row in rows] if leakage else rows
    skipped = {"without_leakage": sum(not row["leaked_frames"] for row in rows)} if leakage else {}
    rows = [row for row in rows if not leakage or row["leaked_frames"]]
    if not rows:
        raise LmmsEgoplanError(
            f"{annotations}: no video has a frame after a step's cut; --leakage needs some"
        )
    prepared = [record for record in prepared if record.step_id in {row["step_id"] for row in rows}]
    return EGOINTENT.save(
        LEAKAGE if leakage else SPLIT,
        table(rows),
        annotations=records.HUB_DATASET
        if str(annotations) == HUB
        else str(Path(annotations).resolve()),
        mapping=records.mapping_lines(loaded, Record.model_fields),
        **of_file,
        records_digest=digest,
        questions=len(prepared),
        unverified=sum(record.unverified for record in prepared),
        fingerprint=fingerprint(
            [
                {name: value for name, value in row.items() if name != "video_path"},
                footage[row["step_id"]].version,
            ]
            for row in rows
        ),
        missing=[
            {"video": video, "reason": reason, "step_ids": step_ids}
            for video, reason, step_ids in missing
        ],
        counts=compare_counts(_counts(prepared), _counts(steps), "annotations", PAPER),
        **({"verified": True} if verify else {}),
        **skipped,
    )


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
) -> tuple[dict[str, Footage], list[Lost]]:
    """Find the footage of records by step id, and the steps that lack it.

    Raises:
        LmmsEgoplanError: The folder is missing, or steps lack footage. With `skip_missing`, only if
            all steps lack it.
    """
    footage, missing = find_step_footage(
        records, videos, verify=verify, seconds_after=seconds_after
    )
    if missing and not (skip_missing and footage):
        state = "no footage or damaged frames" if verify else "no footage"
        entries = [
            f"{video} (steps: {len(step_ids)}, first {step_ids[0]!r}): {reason}"
            for video, reason, step_ids in missing
        ]
        steps, num_videos = (
            sum(len(step_ids) for *_, step_ids in missing),
            len({video for video, *_ in missing}),
        )
        summary = f"{steps} of {len(records)} steps have {state}, in {num_videos} videos:"
        how = "add the videos or correct the annotations, or skip these steps"
        raise LmmsEgoplanError(refusal(summary, entries, how, "step", skip_missing=skip_missing))
    return footage, missing


def find_step_footage(
    cuts: Sequence[Cut | Record], videos: Path, *, verify: bool = False, seconds_after: float = 0
) -> tuple[dict[str, Footage], list[Lost]]:
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
        raise LmmsEgoplanError(
            f"--videos {videos}: folder not found; it must contain <video_id>.mp4"
        )
    find = partial(_find_video, videos, seconds_after)
    return find_footage(cuts, attrgetter("step_id"), attrgetter("video_id"), find, verify=verify)


def _find_video(
    videos: Path, seconds_after: float, cuts: Sequence[Cut | Record]
) -> dict[str, Footage | str]:
    """Return, by step id, the footage of one video's steps, or a message about the problem."""
    path = resolve_inside(videos, f"{cuts[0].video_id}.mp4")
    times = frame_times(path)
    # Assume that the last frame lasts as long as the one before it.
    start, end = times[0], times[-1] + (times[-1] - times[-2] if len(times) > 1 else 0.0)
    version = file_version(path.stat())
    footage_or_problem: dict[str, Footage | str] = {}
    for cut in cuts:
        try:
            if cut.start_sec < start - TOLERANCE or cut.end_sec > end + TOLERANCE:
                raise FrameError(
                    f"{path}: step {cut.step_id!r}, {cut.start_sec:.2f} to {cut.end_sec:.2f} s, "
                    "lies outside of the "
                    f"video, {start:.2f} to {end:.2f} s"
                )
            frames = step_frames(path, cut.start_sec, cut.end_sec + seconds_after)
            footage_or_problem[cut.step_id] = Footage(path, version, frames)
        except FrameError as error:
            footage_or_problem[cut.step_id] = str(error)
    return footage_or_problem


def _rows(
    records: Sequence[Record], footage: dict[str, Footage], of_file: dict[str, Any]
) -> list[dict[str, Any]]:
    without_origin = {"origin"} if all(record.origin is None for record in records) else None
    history: dict[str, int] = {}
    for record in sorted(
        records, key=attrgetter("video_id")
    ):  # each video's frame times are read once
        path = footage[record.step_id].path
        frames = step_frames(path, history_start(path, record.start_sec), record.end_sec)
        history[record.step_id] = len(frames)
    return [
        record.model_dump(exclude=without_origin)
        | {
            "scenario": record.scenario if record.is_goalstep else record.scenario or UNKNOWN,
            "environment": record.environment or UNKNOWN,
            "video_path": str(footage[record.step_id].path),
            "num_frames": len(footage[record.step_id].frames),
            "num_frames_with_history": history[record.step_id],
            **of_file,
        }
        for record in records
    ]


def _leaked(row: Mapping[str, Any], frames: Sequence[int]) -> dict[str, Any]:
    """Return what differs in a row of the split `LEAKAGE`."""
    cut, times = row["end_sec"], frame_times(row["video_path"])
    leaked = [times[frame] - cut for frame in frames if times[frame] >= cut]
    seconds = {"cut_sec": cut, "leaked_sec": max(leaked, default=0.0), "leaked_frames": len(leaked)}
    return seconds | {"end_sec": cut + LEAKAGE_SEC, "origin": LEAKED_STEPS}


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
    """Return the numbers of sec.
    3.4 about the durations of steps, in seconds rounded to hundredths.

    Args:
        durations: Durations in seconds, at least one.
    """
    quartiles = (
        quantiles(durations, n=4, method="inclusive") if len(durations) > 1 else [*durations] * 3
    )
    return {
        "median_sec": round(median(durations), 2),
        "mean_sec": round(fmean(durations), 2),
        "p75_sec": round(quartiles[2], 2),
        "above_10_sec": sum(duration > 10 for duration in durations),
    }
