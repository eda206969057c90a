"""The questions' videos on disk: whether the frames are there, and what tells versions of a file apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.clips import progress_span
from lmms_egoplan.benchmarks.egoplan.records import VIDEO_URLS, Shown
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import count_video_frames


def needed_frames(record: Shown) -> range:
    """All frames of a question that any task may read."""
    first, last = progress_span(record)
    return range(first, last + 1)


def find_video_file(root: str | Path, records: Sequence[Shown]) -> dict[int | str, Footage | str]:
    """Look for all frames of one of Ego4D's videos that the questions on it may read.

    Args:
        root: holds ``<video_id>.mp4``.
        records: the questions on one video, at least one.

    Returns:
        By sample id the footage, or, with the same text for all questions that lack frames, which ones are not there.

    Raises:
        FrameError: the video is absent or cannot be read.
        LmmsEgoplanError: the video lies outside `root`.
    """
    needed = {record.sample_id: needed_frames(record) for record in records}
    path = resolve_inside(root, f"{records[0].video_id}.mp4")
    length = count_video_frames(path)
    version = file_version(path.stat())
    last = max(span[-1] for span in needed.values())
    reason = f"{path}: {length} frames, but questions need them up to frame {last} (counted from 0)"
    return {
        sample_id: reason if span[-1] >= length else Footage(path, version, span) for sample_id, span in needed.items()
    }


def check_roots(
    counts: Mapping[str, int], roots: Mapping[str, str | Path | None], options: Mapping[str, str], skip_missing: bool
) -> None:
    """Check that each source of videos that questions need has a folder.

    Args:
        counts: by source, the questions that need it.
        roots: by source, its folder; None where it is not given.
        options: by source, the option of the command that gives it.
        skip_missing: questions of a source without a folder may be left out.

    Raises:
        LmmsEgoplanError: one has none.
    """
    total = sum(counts.values())
    for source, count in counts.items():
        root = roots[source]
        if root is None and not skip_missing:
            raise LmmsEgoplanError(
                f"{count} of {total} questions need videos of {source}: give their folder with "
                f"{options[source]} DIR (download: {VIDEO_URLS[source]}), or --skip-missing to go without them"
            )
        if root is not None and not Path(root).is_dir():
            raise LmmsEgoplanError(f"{options[source]} {root}: no such folder (download: {VIDEO_URLS[source]})")
