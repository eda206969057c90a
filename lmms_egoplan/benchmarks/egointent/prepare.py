"""From annotated steps and their videos to a dataset that the tasks load."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egointent.records import Record, read_annotations
from lmms_egoplan.benchmarks.egointent.splits import OFFICIAL, PREPARED
from lmms_egoplan.benchmarks.egointent.visuals import step_frames
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import FrameError, check_video_frames, frame_times
from lmms_egoplan.progress import counting, track
from lmms_egoplan.storage import compare_counts, file_version, fingerprint, resolve_inside
from lmms_egoplan.validation import listing

if TYPE_CHECKING:
    from datasets import Dataset

SPLIT = "test"
# Sec. 3.1 and 3.4; durations in seconds.
PAPER = {
    "steps": OFFICIAL[SPLIT],
    "scenarios": 15,
    "videos": 32,
    "median_sec": 1.87,
    "mean_sec": 3.42,
    "p75_sec": 3.57,
    "above_10_sec": 183,
}
# Seconds that a step may begin before its video or end after it: annotated times are rounded, and the last frame's
# duration is not known.
TOLERANCE = 0.1
_LISTED = 50


@dataclass(frozen=True)
class _Footage:
    """What a step's video gives: its absolute path and version, and the number of frames sampled for the step."""

    path: Path
    version: str
    num_frames: int


def prepare_egointent(
    annotations: str | Path, videos: str | Path, skip_missing: bool = False, verify: bool = False
) -> dict[str, Any]:
    """Check annotations and videos, and write the split below the data root.

    Every step must lie inside its video by the frames' time stamps, give or take `TOLERANCE`, and hold a frame.

    Args:
        annotations: see `read_annotations`.
        videos: holds ``<video_id>.mp4``.
        skip_missing: leave out steps without footage, or with damaged frames, instead of refusing.
        verify: decode every frame of the steps at 6 per second, which are all that a task may read.

    Returns:
        The summary, which is also stored with the split: ``benchmark``, ``split``, ``prepared`` (UTC, ISO 8601),
        ``annotations``, ``split_size`` (steps in the file), ``questions`` (prepared), ``unverified`` (how many of
        these), ``fingerprint`` (another text once a prepared step or its video file has changed), ``missing`` (for
        each video that lacks footage its ``video``, ``reason`` and the ``step_ids`` that it concerns), ``verified``
        (true, where all frames were decoded) and ``counts``: for each row of `PAPER` the numbers ``prepared``,
        ``annotations``, ``paper`` and ``matches``,
        whether file and paper agree; for Goal-Step steps ``categories`` in place of ``scenarios``, with None for
        ``paper`` and ``matches``. Durations are rounded to hundredths; the 75th percentile is interpolated
        linearly (`statistics.quantiles`, inclusive).

        A row of the split has `Record`'s fields and ``video_path`` (absolute), ``num_frames`` (that the step gives
        at 6 per second, before any cap) and ``split_size``.

    Raises:
        LmmsEgoplanError: the annotations are wrong, or the folder or footage is missing; nothing is written.
    """
    records = read_annotations(annotations)
    if not Path(videos).is_dir():
        raise LmmsEgoplanError(f"--videos {videos}: no such folder; it holds <video_id>.mp4")
    footage, missing = _check_videos(records, videos)
    if verify:
        missing += _remove_damaged(records, footage)
    if missing and not (skip_missing and footage):
        raise LmmsEgoplanError(_missing_message(missing, len(records), skip_missing, verify))
    kept = [record for record in records if record.step_id in footage]
    rows = _rows(kept, footage, len(records))
    return PREPARED.save(
        SPLIT,
        _dataset(rows),
        annotations=str(Path(annotations).resolve()),
        split_size=len(records),
        questions=len(kept),
        unverified=sum(record.unverified for record in kept),
        fingerprint=fingerprint([row, footage[row["step_id"]].version] for row in rows),
        missing=missing,
        counts=compare_counts(_counts(kept), _counts(records), "annotations", PAPER),
        **({"verified": True} if verify else {}),
    )


def check_videos(records: Sequence[Record], root: str | Path) -> dict[str, Path]:
    """By step id, its video, which has the step's frames.

    Raises:
        LmmsEgoplanError: videos or frames are missing.
    """
    footage, missing = _check_videos(records, root)
    if missing:
        raise LmmsEgoplanError(_missing_message(missing, len(records), skip_missing=False, verify=False))
    return {step_id: found.path for step_id, found in footage.items()}


def _check_videos(records: Sequence[Record], root: str | Path) -> tuple[dict[str, _Footage], list[dict[str, Any]]]:
    """Footage by step id, and what is missing as the summary tells it."""
    by_video: dict[str, list[Record]] = {}
    for record in records:
        by_video.setdefault(record.video_id, []).append(record)
    footage: dict[str, _Footage] = {}
    missing: list[dict[str, Any]] = []
    for video_id, group in track(by_video.items(), "Checking videos"):
        lost: list[str] = []
        reasons: list[str] = []
        try:
            path = resolve_inside(root, f"{video_id}.mp4")
            span = _span(path)
            version = file_version(path.stat())
        except (LmmsEgoplanError, OSError) as error:
            lost, reasons = [record.step_id for record in group], [str(error)]
        else:
            for record in group:
                try:
                    footage[record.step_id] = _Footage(path, version, _count_frames(path, record, span))
                except FrameError as error:
                    lost.append(record.step_id)
                    reasons.append(str(error))
        if lost:
            missing.append({"video": video_id, "reason": reasons[0], "step_ids": lost})
    return footage, missing


def _remove_damaged(records: Sequence[Record], footage: dict[str, _Footage]) -> list[dict[str, Any]]:
    """Take steps with damaged frames out of `footage`; returns them as the summary tells them."""
    by_video: dict[str, list[Record]] = {}
    for record in records:
        if record.step_id in footage:
            by_video.setdefault(record.video_id, []).append(record)
    frames = {
        record.step_id: step_frames(footage[record.step_id].path, record.start_sec, record.end_sec)
        for group in by_video.values()
        for record in group
    }
    positions = {
        video_id: set().union(*(frames[record.step_id] for record in group)) for video_id, group in by_video.items()
    }
    entries: list[dict[str, Any]] = []
    with counting(sum(map(len, positions.values())), "Decoding frames") as advance:
        for video_id, group in by_video.items():
            damaged: dict[int, str] = {}
            for position, error in check_video_frames(footage[group[0].step_id].path, positions[video_id]):
                advance()
                if error is not None:
                    damaged[position] = str(error)
            lost = [record.step_id for record in group if not damaged.keys().isdisjoint(frames[record.step_id])]
            if lost:
                entries.append({"video": video_id, "reason": damaged[min(damaged)], "step_ids": lost})
            for step_id in lost:
                del footage[step_id]
    return entries


def _span(path: Path) -> tuple[float, float]:
    """Seconds at which the first frame begins and the last one ends, if it lasts as long as the one before it."""
    times = frame_times(path)
    return times[0], times[-1] + (times[-1] - times[-2] if len(times) > 1 else 0.0)


def _count_frames(path: Path, record: Record, span: tuple[float, float]) -> int:
    if record.start_sec < span[0] - TOLERANCE or record.end_sec > span[1] + TOLERANCE:
        raise FrameError(
            f"{path}: lasts from {span[0]:.2f} to {span[1]:.2f} s, step {record.step_id!r} from "
            f"{record.start_sec:.2f} to {record.end_sec:.2f}"
        )
    return len(step_frames(path, record.start_sec, record.end_sec))


def _missing_message(missing: Sequence[dict[str, Any]], split_size: int, skip_missing: bool, verify: bool) -> str:
    state = "no footage or damaged frames" if verify else "no footage"
    lost = sum(len(entry["step_ids"]) for entry in missing)
    entries = [
        f"{entry['video']} (steps: {len(entry['step_ids'])}, first {entry['step_ids'][0]!r}): {entry['reason']}"
        for entry in missing
    ]
    return "\n".join(
        (
            f"{lost} of {split_size} steps have {state}, in {len({entry['video'] for entry in missing})} videos:",
            listing(entries, _LISTED),
            "no step is left to prepare"
            if skip_missing
            else "add the videos or correct the annotations, or go on without these steps: --skip-missing",
        )
    )


def _rows(records: Sequence[Record], footage: dict[str, _Footage], split_size: int) -> list[dict[str, Any]]:
    return [
        record.model_dump()
        | {
            "video_path": str(footage[record.step_id].path),
            "num_frames": footage[record.step_id].num_frames,
            "split_size": split_size,
        }
        for record in records
    ]


def _counts(records: Sequence[Record]) -> dict[str, float]:
    durations = [record.end_sec - record.start_sec for record in records]
    quartiles = quantiles(durations, n=4, method="inclusive") if len(durations) > 1 else durations * 3
    return {
        "steps": len(records),
        **_groups(records),
        "videos": len({record.video_id for record in records}),
        "median_sec": round(median(durations), 2),
        "mean_sec": round(fmean(durations), 2),
        "p75_sec": round(quartiles[2], 2),
        "above_10_sec": sum(duration > 10 for duration in durations),
    }


def _groups(records: Sequence[Record]) -> dict[str, int]:
    if any(record.is_goalstep for record in records):
        return {"categories": len({record.category for record in records})}
    return {"scenarios": len({record.scenario for record in records})}


def _dataset(rows: list[dict[str, Any]]) -> "Dataset":
    from datasets import Dataset, Features, Value

    text, integer, number = Value("string"), Value("int64"), Value("float64")
    features = Features(
        {
            "step_id": text,
            "video_id": text,
            "start_sec": number,
            "end_sec": number,
            "local_intent": text,
            "global_intent": text,
            "next_step_plan": text,
            "scenario": text,
            "environment": text,
            "event": text,
            "goal": text,
            "unverified": Value("bool"),
            "category": text,
            "video_path": text,
            "num_frames": integer,
            "split_size": integer,
        }
    )
    return Dataset.from_list(rows, features=features)
