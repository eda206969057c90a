"""From EgoPlan-Bench2's annotation file and Ego4D's videos to a dataset that the tasks load."""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench2.records import HUB, Record, read_annotations
from lmms_egoplan.benchmarks.egoplan.bench2.splits import OFFICIAL, PREPARED, SPLIT
from lmms_egoplan.benchmarks.egoplan.prepare import Id, find_clips, missing_message, rows_of, save_questions
from lmms_egoplan.benchmarks.egoplan.records import EGO4D
from lmms_egoplan.benchmarks.egoplan.sources import check_roots, find_video_file
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, Lost, find_footage
from lmms_egoplan.storage import compare_counts

# What the paper counts (abstract, sec. 3).
PAPER_COUNTS = {"questions": OFFICIAL[SPLIT], "videos": 1113, "domains": 4, "scenarios": 24}
# Of lmms-eval's copy of the data set, nv-njb/egoplan-bench2.
COPY_SIZE = 1435
_OPTIONS = {EGO4D: "--ego4d"}


def prepare_egoplan_bench2(
    annotations: str | Path,
    ego4d: str | Path | None,
    skip_missing: bool = False,
    verify: bool = False,
    clips: str | Path | None = None,
) -> dict[str, Any]:
    """Check annotations and media, and write the split below the data root.

    Args:
        annotations: the official file, or `HUB`; see `read_annotations`.
        ego4d: holds ``<video_id>.mp4``; None with `clips`.
        skip_missing: leave out questions whose frames are not there or damaged, instead of refusing.
        verify: decode every frame from a task's start to the observation; of a ready clip, those that may be shown.
        clips: holds a ready-cut clip of each question (`clips.find_clip`), in place of the videos.

    Returns:
        The summary, see `save_questions`. ``counts`` has, for questions, videos, domains and scenarios, the numbers
        ``prepared``, ``annotations``, ``paper`` and ``matches``, whether file and paper agree.

    Raises:
        LmmsEgoplanError: the annotations are wrong, or a folder or frames are missing; nothing is written.
    """
    if clips is not None and ego4d is not None:
        raise LmmsEgoplanError("--clips stands in place of --ego4d: give either")
    records = read_annotations(annotations)
    if clips is None:
        footage, lost = _find_footage(records, ego4d, skip_missing, verify)
    else:
        footage, lost = find_clips(records, clips, verify)
    if lost and not (skip_missing and footage):
        raise LmmsEgoplanError(missing_message(lost, len(records), _OPTIONS, skip_missing, verify, clips))
    kept = [record for record in records if record.sample_id in footage]
    rows = rows_of(kept, footage, len(records))
    return save_questions(
        PREPARED,
        SPLIT,
        annotations if str(annotations) == HUB else Path(annotations).resolve(),
        [row | {"first_frame": row["task_start_frame"]} for row in rows],
        footage,
        lost,
        compare_counts(_counts(kept), _counts(records), "annotations", PAPER_COUNTS),
        verify,
        _warnings(records),
        {"domain": "string", "scenario": "string", "first_frame": "int64"},
    )


def find_sources(
    records: Sequence[Record], ego4d: str | Path | None, skip_missing: bool
) -> tuple[dict[Id, Footage], str | None]:
    """By sample id, the footage of the questions in the source videos, and the message about the others.

    Raises:
        LmmsEgoplanError: the folder is missing, or frames are and `skip_missing` is false.
    """
    footage, lost = _find_footage(records, ego4d, skip_missing, verify=False)
    message = missing_message(lost, len(records), _OPTIONS, skip_missing, False) if lost else None
    if message is not None and not (skip_missing and footage):
        raise LmmsEgoplanError(message)
    return footage, message


def _find_footage(
    records: Sequence[Record], ego4d: str | Path | None, skip_missing: bool, verify: bool
) -> tuple[dict[Id, Footage], list[Lost]]:
    # Without the one source there are no questions.
    check_roots({EGO4D: len(records)}, {EGO4D: ego4d}, _OPTIONS, skip_missing and ego4d is not None)

    def find(group: Sequence[Record]) -> dict[Id, Footage | str]:
        return find_video_file(ego4d, group)

    return find_footage(records, attrgetter("sample_id"), attrgetter("video_source", "video_id"), find, verify)


def _warnings(records: Sequence[Record]) -> list[str]:
    if len(records) != COPY_SIZE:
        return []
    return [
        f"the file has {COPY_SIZE:,} records, as lmms-eval's copy of the data set has (nv-njb/egoplan-bench2), and the "
        f"paper {OFFICIAL[SPLIT]:,} questions: accuracies over them do not compare with published ones"
    ]


def _counts(records: Sequence[Record]) -> dict[str, int]:
    return {
        "questions": len(records),
        "videos": len({record.video_id for record in records}),
        "domains": len({record.domain for record in records}),
        "scenarios": len({record.scenario for record in records}),
    }
