"""From EgoPlan's annotation file and the videos to a dataset that the tasks load."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench1.records import Record, Split, read_annotations
from lmms_egoplan.benchmarks.egoplan.bench1.sources import find_video
from lmms_egoplan.benchmarks.egoplan.bench1.splits import OFFICIAL, PREPARED
from lmms_egoplan.benchmarks.egoplan.prepare import find_clips, missing_message, rows_of, save_questions
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.sources import check_roots
from lmms_egoplan.benchmarks.egoplan.video_info import VideoInfo, read_video_info, record_problem
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, Lost, find_footage, tell_of_lost
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.storage import compare_counts

# What the paper counts: questions and task goals in Table 2, the sources of the validation split in sec. 5.1.
PAPER_COUNTS: dict[str, dict[str, int]] = {
    "val": {"questions": OFFICIAL["val"], "task_goals": 2407, EPIC_KITCHENS: 2432, EGO4D: 923},
    "test": {"questions": OFFICIAL["test"], "task_goals": 902},
}
_OPTIONS = {EPIC_KITCHENS: "--epic-kitchens", EGO4D: "--ego4d"}

Roots = dict[str, str | Path | None]


def prepare_egoplan(
    annotations: str | Path,
    split: Split,
    epic_kitchens: str | Path | None,
    ego4d: str | Path | None,
    skip_missing: bool = False,
    verify: bool = False,
    clips: str | Path | None = None,
    epic_video_info: str | Path | None = None,
) -> dict[str, Any]:
    """Check annotations and media, and write the split below the data root.

    Args:
        annotations: the official file; see `read_annotations`.
        split: ``"val"`` or ``"test"``.
        epic_kitchens: holds ``P01/rgb_frames/P01_13/frame_0000000760.jpg``; None if no question needs it.
        ego4d: holds ``<video_id>.mp4``; None if no question needs it.
        skip_missing: leave out questions whose frames are not there or damaged, instead of refusing.
        verify: decode every frame from a question's first past action to its observation, which are all that any
            layout and frame count may read; of a ready clip, those that may be shown.
        clips: holds a ready-cut clip of each question (`clips.find_clip`), in place of both sources.
        epic_video_info: EPIC-KITCHENS-100's official list of videos (`clock.read_video_info`). With it, ids that it
            lacks, observations behind a video's end and frames that were extracted at another rate count as missing.

    Returns:
        The summary, see `save_questions`. ``counts`` has, for questions, task_goals and each source, the numbers
        ``prepared``, ``annotations``, ``paper`` (None where the paper does not tell) and ``matches``, whether file and
        paper agree (None likewise).

    Raises:
        LmmsEgoplanError: the annotations are wrong, or a folder or frames are missing; nothing is written.
    """
    if clips is not None and (epic_kitchens is not None or ego4d is not None):
        raise LmmsEgoplanError("--clips stands in place of --epic-kitchens and --ego4d: give either")
    records = read_annotations(annotations, split)
    videos = None if epic_video_info is None else read_video_info(Path(epic_video_info))
    warnings: list[str] = []
    unfit = _record_problems(annotations, records, videos)
    if clips is None:
        roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
        _check_roots(records, roots, skip_missing)
        footage, lost = _find_footage(records, roots, verify, unfit, videos, warnings.append)
    else:
        footage, lost = find_clips(records, clips, verify, unfit)
    if lost and not (skip_missing and footage):
        raise LmmsEgoplanError(missing_message(lost, len(records), _OPTIONS, skip_missing, verify, clips))
    kept = [record for record in records if record.sample_id in footage]
    counts = compare_counts(_counts(kept), _counts(records), "annotations", PAPER_COUNTS[split])
    rows = rows_of(kept, footage, len(records))
    return save_questions(PREPARED, split, Path(annotations).resolve(), rows, footage, lost, counts, verify, warnings)


def find_sources(
    annotations: str | Path,
    records: Sequence[Record],
    roots: Roots,
    skip_missing: bool,
    epic_video_info: str | Path | None = None,
) -> tuple[dict[int, Footage], str | None]:
    """By sample id, the footage of the questions in the source videos, and the message about the others.

    Raises:
        LmmsEgoplanError: a folder is missing, or frames are and `skip_missing` is false.
    """
    videos = None if epic_video_info is None else read_video_info(Path(epic_video_info))
    _check_roots(records, roots, skip_missing)
    unfit = _record_problems(annotations, records, videos)
    footage, lost = _find_footage(records, roots, False, unfit, videos)
    message = missing_message(lost, len(records), _OPTIONS, skip_missing, False) if lost else None
    if message is not None and not (skip_missing and footage):
        raise LmmsEgoplanError(message)
    return footage, message


def check_media(records: Sequence[Record], roots: Roots, skip_missing: bool) -> dict[int, Path]:
    """By sample id, the video file or frame folder that has all frames of the question.

    Raises:
        LmmsEgoplanError: a folder or frames are missing; with `skip_missing`, those of all questions.
    """
    _check_roots(records, roots, skip_missing)
    footage, lost = _find_footage(records, roots, verify=False)
    if lost and not (skip_missing and footage):
        raise LmmsEgoplanError(missing_message(lost, len(records), _OPTIONS, skip_missing, verify=False))
    tell_of_lost(lost)
    return {sample_id: found.path for sample_id, found in footage.items()}


def _record_problems(
    annotations: str | Path, records: Sequence[Record], videos: Mapping[str, VideoInfo] | None
) -> dict[int, str]:
    """By sample id, what is wrong with EPIC-KITCHENS' records by the official list of videos."""
    return {
        record.sample_id: f"{annotations}: record {index}, sample_id {record.sample_id}, {problem}"
        for index, record in enumerate(records)
        if videos is not None
        and record.video_source == EPIC_KITCHENS
        and (problem := record_problem(record.video_id, record.current_observation_frame, videos))
    }


def _find_footage(
    records: Sequence[Record],
    roots: Roots,
    verify: bool,
    unfit: Mapping[int, str] = MappingProxyType({}),
    videos: Mapping[str, VideoInfo] | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> tuple[dict[int, Footage], list[Lost]]:
    def find(group: Sequence[Record]) -> dict[int, Footage | str]:
        fit = [record for record in group if record.sample_id not in unfit]
        found = {record.sample_id: unfit[record.sample_id] for record in group if record.sample_id in unfit}
        if not fit:
            return found
        source = group[0].video_source
        if (root := roots[source]) is None:
            raise FrameError(f"{_OPTIONS[source]} is not given")
        return found | find_video(root, fit, videos, warn)

    return find_footage(records, attrgetter("sample_id"), attrgetter("video_source", "video_id"), find, verify)


def _check_roots(records: Sequence[Record], roots: Roots, skip_missing: bool) -> None:
    check_roots(Counter(record.video_source for record in records), roots, _OPTIONS, skip_missing)


def _counts(records: Sequence[Record]) -> dict[str, int]:
    sources = Counter(record.video_source for record in records)
    return {
        "questions": len(records),
        "task_goals": len({record.task_goal for record in records}),
        EPIC_KITCHENS: sources[EPIC_KITCHENS],
        EGO4D: sources[EGO4D],
    }
