"""Clips cut from EgoPlan's source videos."""

from pathlib import Path

from lmms_egoplan.benchmarks.egoplan import cutting
from lmms_egoplan.benchmarks.egoplan.bench1.prepare import find_sources
from lmms_egoplan.benchmarks.egoplan.bench1.records import Split, read_annotations
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS


def cut_clips(
    annotations: str | Path,
    split: Split,
    epic_kitchens: str | Path | None,
    ego4d: str | Path | None,
    out: str | Path,
    skip_missing: bool = False,
    epic_video_info: str | Path | None = None,
) -> cutting.CutClips:
    """Write a clip of each question, see `cutting.cut_clips`.

    Args:
        annotations, split, epic_kitchens, ego4d, epic_video_info: as for `prepare.prepare_egoplan`.
        out: the folder of the clips.
        skip_missing: leave out questions without footage, or with a damaged frame, instead of refusing.

    Raises:
        LmmsEgoplanError: the annotations are wrong, or footage is missing or damaged. Clips that were cut until then
            stay.
        OSError: the folder cannot be written.
    """
    records = read_annotations(annotations, split)
    roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
    footage, missing = find_sources(annotations, records, roots, skip_missing, epic_video_info)
    return cutting.cut_clips(annotations, records, footage, missing, out, skip_missing)
