"""From EgoPlan's annotation file and the videos to a dataset that the tasks load."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan.records import (
    CHOICES,
    EGO4D,
    EPIC_KITCHENS,
    VIDEO_URLS,
    Record,
    Split,
    read_annotations,
)
from lmms_egoplan.benchmarks.egoplan.sources import find_video
from lmms_egoplan.benchmarks.egoplan.splits import OFFICIAL, PREPARED
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, Lost, find_footage
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.storage import compare_counts, fingerprint, refusal

if TYPE_CHECKING:
    from datasets import Dataset

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
) -> dict[str, Any]:
    """Check annotations and media, and write the split below the data root.

    Args:
        annotations: the official file; see `read_annotations`.
        split: ``"val"`` or ``"test"``.
        epic_kitchens: holds ``P01/rgb_frames/P01_13/frame_0000000760.jpg``; None if no question needs it.
        ego4d: holds ``<video_id>.mp4``; None if no question needs it.
        skip_missing: leave out questions whose frames are not there or damaged, instead of refusing.
        verify: decode every frame from a question's first past action to its observation, which are all that any
            layout and frame count may read.

    Returns:
        The summary, which is also stored with the split: ``benchmark``, ``split``, ``prepared`` (UTC, ISO
        8601), ``annotations``, ``split_size`` (questions in the file), ``questions`` (prepared),
        ``fingerprint`` (another text once a prepared question or its media have changed, see `Footage.version`),
        ``missing`` (for each video that lacks frames its ``video_source``, ``video``, ``reason`` and the
        ``sample_ids`` that it concerns), ``verified`` (true, where all
        frames were decoded) and ``counts``: for questions, task_goals and each source the
        numbers ``prepared``, ``annotations``, ``paper`` (None where the paper does not tell) and
        ``matches``, whether file and paper agree (None likewise).

    Raises:
        LmmsEgoplanError: the annotations are wrong, or a folder or frames are missing; nothing is written.
    """
    records = read_annotations(annotations, split)
    roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
    _check_roots(records, roots, skip_missing)
    footage, lost = _find_footage(records, roots, verify)
    if lost and not (skip_missing and footage):
        raise LmmsEgoplanError(_missing_message(lost, len(records), skip_missing, verify))
    kept = [record for record in records if record.sample_id in footage]
    rows = _rows(kept, footage, len(records))
    return PREPARED.save(
        split,
        _dataset(rows),
        annotations=str(Path(annotations).resolve()),
        split_size=len(records),
        questions=len(kept),
        fingerprint=fingerprint([row, footage[row["sample_id"]].version] for row in rows),
        missing=[
            {"video_source": source, "video": video, "reason": reason, "sample_ids": sample_ids}
            for (source, video), reason, sample_ids in lost
        ],
        counts=compare_counts(_counts(kept), _counts(records), "annotations", PAPER_COUNTS[split]),
        **({"verified": True} if verify else {}),
    )


def check_media(records: Sequence[Record], roots: Roots) -> dict[int, Path]:
    """By sample id, the video file or frame folder that has all frames of the question.

    Raises:
        LmmsEgoplanError: a folder or frames are missing.
    """
    _check_roots(records, roots, skip_missing=False)
    footage, lost = _find_footage(records, roots, verify=False)
    if lost:
        raise LmmsEgoplanError(_missing_message(lost, len(records), skip_missing=False, verify=False))
    return {sample_id: found.path for sample_id, found in footage.items()}


def _find_footage(
    records: Sequence[Record], roots: Roots, verify: bool
) -> tuple[dict[int, Footage], list[Lost[tuple[str, str], int]]]:
    def find(group: Sequence[Record]) -> dict[int, Footage | str]:
        source = group[0].video_source
        if (root := roots[source]) is None:
            raise FrameError(f"{_OPTIONS[source]} is not given")
        return find_video(root, group)

    return find_footage(records, attrgetter("sample_id"), attrgetter("video_source", "video_id"), find, verify)


def _check_roots(records: Sequence[Record], roots: Roots, skip_missing: bool) -> None:
    needed = Counter(record.video_source for record in records)
    for source, count in needed.items():
        root = roots[source]
        if root is None and not skip_missing:
            raise LmmsEgoplanError(
                f"{count} of {len(records)} questions need videos of {source}: give their folder with "
                f"{_OPTIONS[source]} DIR (download: {VIDEO_URLS[source]}), or --skip-missing to go without them"
            )
        if root is not None and not Path(root).is_dir():
            raise LmmsEgoplanError(f"{_OPTIONS[source]} {root}: no such folder (download: {VIDEO_URLS[source]})")


def _missing_message(missing: Sequence[Lost], split_size: int, skip_missing: bool, verify: bool) -> str:
    per_source: Counter[str] = Counter()
    for (source, _), _, sample_ids in missing:
        per_source[source] += len(sample_ids)
    state = "missing or damaged" if verify else "missing"
    lines = [f"the frames of {per_source.total()} of {split_size} questions are {state}:"]
    for source, count in per_source.items():
        lines.append(f"  {count} from {source} ({_OPTIONS[source]}; download: {VIDEO_URLS[source]})")
    lines.append(f"in {len({lost.video for lost in missing})} videos:")
    videos = [f"{lost.video[1]} (questions: {len(lost.ids)}): {lost.reason}" for lost in missing]
    return refusal("\n".join(lines), videos, "add them, or go on without them", "question", skip_missing)


def _rows(records: Sequence[Record], footage: dict[int, Footage], split_size: int) -> list[dict[str, Any]]:
    return [
        record.model_dump(exclude={*CHOICES})
        | {"choices": record.choices, "media_path": str(footage[record.sample_id].path), "split_size": split_size}
        for record in records
    ]


def _counts(records: Sequence[Record]) -> dict[str, int]:
    sources = Counter(record.video_source for record in records)
    return {
        "questions": len(records),
        "task_goals": len({record.task_goal for record in records}),
        EPIC_KITCHENS: sources[EPIC_KITCHENS],
        EGO4D: sources[EGO4D],
    }


def _dataset(rows: list[dict[str, Any]]) -> "Dataset":
    from datasets import Dataset, Features, Value

    text, integer = Value("string"), Value("int64")
    features = Features(
        {
            "sample_id": integer,
            **dict.fromkeys(("video_source", "video_id", "task_goal", "question"), text),
            "choices": [text],
            **dict.fromkeys(("golden_choice_idx", "answer"), text),
            "current_observation_frame": integer,
            "past_actions": [{"narration_text": text, "start_frame": integer, "stop_frame": integer}],
            "media_path": text,
            "split_size": integer,
        }
    )
    return Dataset.from_list([{name: row[name] for name in features} for row in rows], features=features)
