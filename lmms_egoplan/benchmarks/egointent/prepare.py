"""From annotated steps and their videos to a dataset that the tasks load."""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Any, Protocol

from lmms_egoplan.benchmarks.egointent.record_files import HUB, HUB_DATASET, NONE_GIVEN, load, mapping_lines
from lmms_egoplan.benchmarks.egointent.records import UNKNOWN, Record, check_records
from lmms_egoplan.benchmarks.egointent.splits import OFFICIAL, PREPARED
from lmms_egoplan.benchmarks.egointent.visuals import step_frames
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage, Lost, find_footage, tell_of_lost
from lmms_egoplan.media.frames import FrameError, frame_times
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.storage import compare_counts, fingerprint, refusal

if TYPE_CHECKING:
    from datasets import Dataset

SPLIT = "test"
_COUNTS = yaml_beside(__file__)
PAPER = {"steps": OFFICIAL[SPLIT], **{name: count["paper"] for name, count in _COUNTS.items()}}
LABELS = {name: count["label"] for name, count in _COUNTS.items() if "label" in count}
# Seconds that a step may begin before its video or end after it: annotated times are rounded, and the last frame's
# duration is not known.
TOLERANCE = 0.1


def prepare_egointent(
    annotations: str | Path,
    videos: str | Path,
    skip_missing: bool = False,
    verify: bool = False,
    given: Mapping[str, str] = NONE_GIVEN,
) -> dict[str, Any]:
    """Check annotations and videos, and write the split below the data root.

    Every step must lie inside its video by the frames' time stamps, give or take `TOLERANCE`, and hold a frame.

    Args:
        annotations: see `record_files.load`.
        videos: holds ``<video_id>.mp4``.
        skip_missing: leave out steps without footage, or with damaged frames, instead of refusing.
        given: as for `record_files.load`.
        verify: decode every frame of the steps at 6 per second, which are all that a task may read.

    Returns:
        The summary, which is also stored with the split: ``benchmark``, ``split``, ``prepared`` (UTC, ISO 8601),
        ``annotations``, ``mapping`` (which keys were taken for which fields), ``split_size`` (steps in the file),
        ``questions`` (prepared), ``unverified`` (how many of these), ``fingerprint`` (another text once a prepared step
        or its video file has changed), ``missing`` (for each video that lacks footage its ``video``, ``reason`` and the
        ``step_ids`` that it concerns), ``verified`` (true, where all frames were decoded) and ``counts``: for each row
        of `PAPER` the numbers ``prepared``, ``annotations``, ``paper`` and ``matches``, whether file and paper agree;
        for Goal-Step steps ``categories`` in place of ``scenarios``, with None for ``paper`` and ``matches``.
        Durations are rounded to hundredths; the 75th percentile is interpolated linearly (`statistics.quantiles`,
        inclusive).

        A row of the split has `Record`'s fields and ``video_path`` (absolute), ``num_frames`` (that the step gives
        at 6 per second, before any cap) and ``split_size``.

    Raises:
        LmmsEgoplanError: the annotations are wrong, or the folder or footage is missing; nothing is written.
    """
    loaded = load(annotations, given)
    records = check_records(annotations, loaded, given)
    footage, lost = find_step_footage(records, videos, verify)
    if lost and not (skip_missing and footage):
        raise LmmsEgoplanError(_missing_message(lost, len(records), skip_missing, verify))
    kept = [record for record in records if record.step_id in footage]
    rows = _rows(kept, footage, len(records))
    return PREPARED.save(
        SPLIT,
        _dataset(rows),
        annotations=HUB_DATASET if str(annotations) == HUB else str(Path(annotations).resolve()),
        mapping=mapping_lines(loaded, Record.model_fields, given),
        split_size=len(records),
        questions=len(kept),
        unverified=sum(record.unverified for record in kept),
        fingerprint=fingerprint([row, footage[row["step_id"]].version] for row in rows),
        missing=[{"video": video, "reason": reason, "step_ids": step_ids} for video, reason, step_ids in lost],
        counts=compare_counts(_counts(kept), _counts(records), "annotations", PAPER),
        **({"verified": True} if verify else {}),
    )


class Cut(Protocol):
    """A step as far as its footage is concerned: `Record`'s fields."""

    step_id: str
    video_id: str
    start_sec: float
    end_sec: float


def check_videos(records: Sequence[Record], root: str | Path, skip_missing: bool) -> dict[str, Path]:
    """By step id, its video, which has the step's frames.

    Raises:
        LmmsEgoplanError: the folder, videos or frames are missing; with `skip_missing`, those of all steps.
    """
    footage, lost = find_step_footage(records, root, verify=False)
    if lost and not (skip_missing and footage):
        raise LmmsEgoplanError(_missing_message(lost, len(records), skip_missing, verify=False))
    tell_of_lost(lost)
    return {step_id: found.path for step_id, found in footage.items()}


def find_step_footage(records: Sequence[Cut], root: str | Path, verify: bool) -> tuple[dict[str, Footage], list[Lost]]:
    """By step id, the footage of each step that has all of it; and the others, see `find_footage`.

    Raises:
        LmmsEgoplanError: the folder is missing.
    """
    if not Path(root).is_dir():
        raise LmmsEgoplanError(f"--videos {root}: no such folder; it holds <video_id>.mp4")
    find = partial(_find_video, root)
    return find_footage(records, attrgetter("step_id"), attrgetter("video_id"), find, verify)


def _find_video(root: str | Path, records: Sequence[Cut]) -> dict[str, Footage | str]:
    """By step id of the steps of one video, the footage or what is wrong."""
    path = resolve_inside(root, f"{records[0].video_id}.mp4")
    span, version = _span(path), file_version(path.stat())
    found: dict[str, Footage | str] = {}
    for record in records:
        try:
            found[record.step_id] = Footage(path, version, _frames(path, record, span))
        except FrameError as error:
            found[record.step_id] = str(error)
    return found


def _span(path: Path) -> tuple[float, float]:
    """Seconds at which the first frame begins and the last one ends, if it lasts as long as the one before it."""
    times = frame_times(path)
    return times[0], times[-1] + (times[-1] - times[-2] if len(times) > 1 else 0.0)


def _frames(path: Path, record: Cut, span: tuple[float, float]) -> list[int]:
    if record.start_sec < span[0] - TOLERANCE or record.end_sec > span[1] + TOLERANCE:
        raise FrameError(
            f"{path}: lasts from {span[0]:.2f} to {span[1]:.2f} s, step {record.step_id!r} from "
            f"{record.start_sec:.2f} to {record.end_sec:.2f}"
        )
    return step_frames(path, record.start_sec, record.end_sec)


def _missing_message(missing: Sequence[Lost], split_size: int, skip_missing: bool, verify: bool) -> str:
    state = "no footage or damaged frames" if verify else "no footage"
    lost = sum(len(step_ids) for _, _, step_ids in missing)
    entries = [
        f"{video} (steps: {len(step_ids)}, first {step_ids[0]!r}): {reason}" for video, reason, step_ids in missing
    ]
    found = f"{lost} of {split_size} steps have {state}, in {len({lost.video for lost in missing})} videos:"
    how = "add the videos or correct the annotations, or go on without these steps"
    return refusal(found, entries, how, "step", skip_missing=skip_missing)


def _rows(records: Sequence[Record], footage: dict[str, Footage], split_size: int) -> list[dict[str, Any]]:
    without_origin = {"origin"} if all(record.origin is None for record in records) else None
    return [
        record.model_dump(exclude=without_origin)
        | {
            "scenario": record.scenario if record.is_goalstep else record.scenario or UNKNOWN,
            "environment": record.environment or UNKNOWN,
            "video_path": str(footage[record.step_id].path),
            "num_frames": len(footage[record.step_id].frames),
            "split_size": split_size,
        }
        for record in records
    ]


def _counts(records: Sequence[Record]) -> dict[str, float]:
    return {
        "steps": len(records),
        **_groups(records),
        "videos": len({record.video_id for record in records}),
        **duration_counts([record.end_sec - record.start_sec for record in records]),
    }


def duration_counts(durations: Sequence[float]) -> dict[str, float]:
    """What sec. 3.4 tells of steps' durations, in seconds rounded to hundredths; how many are above 10 s.

    Args:
        durations: at least one.
    """
    quartiles = quantiles(durations, n=4, method="inclusive") if len(durations) > 1 else [*durations] * 3
    return {
        "median_sec": round(median(durations), 2),
        "mean_sec": round(fmean(durations), 2),
        "p75_sec": round(quartiles[2], 2),
        "above_10_sec": sum(duration > 10 for duration in durations),
    }


def _groups(records: Sequence[Record]) -> dict[str, int]:
    if any(record.is_goalstep for record in records):
        return {"categories": len({record.category for record in records})}
    return {"scenarios": len({record.scenario for record in records} - {None})}


def _dataset(rows: list[dict[str, Any]]) -> "Dataset":
    from datasets import Dataset, Features, Value

    kinds = {
        **dict.fromkeys(("start_sec", "end_sec"), "float64"),
        **dict.fromkeys(("num_frames", "split_size"), "int64"),
        "unverified": "bool",
    }
    features = Features({name: Value(kinds.get(name, "string")) for name in rows[0]})
    return Dataset.from_list(rows, features=features)
