"""Clips cut from the source videos, one a question, which hold all that a task may read of it and nothing after it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.clips import Label, progress_span, read_label
from lmms_egoplan.benchmarks.egoplan.clock import frames_per_second
from lmms_egoplan.benchmarks.egoplan.records import Shown
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import FrameError, frame_path, read_frame_folder, stream_video_frames, write_video
from lmms_egoplan.progress import progress_bar

# The frames that models see differ by 1.4 to 1.9 of 255 on average from those of the source, of which 1.3 come with the
# colours of yuv420p at any rate factor (photos that move, 456x256).
CRF = 12
# Tasks read frames far apart: with near key frames, few others are decoded on the way.
KEY_EVERY = 30
_ENCODER = f"libx264, crf {CRF}, key frame every {KEY_EVERY}"


@dataclass(frozen=True)
class CutClips:
    """What `cut_clips` has done.

    cut, kept: clips written now, and those that were there from an earlier call.
    split_size: questions in the annotations.
    seconds: that all clips last.
    size: bytes of all clips.
    failed: by sample id, why a clip could not be cut.
    missing: about questions without footage; None if there are none.
    """

    cut: int
    kept: int
    split_size: int
    seconds: float
    size: int
    failed: Mapping[int | str, str]
    missing: str | None


def cut_clips(
    annotations: str | Path,
    records: Sequence[Shown],
    footage: Mapping[int | str, Footage],
    missing: str | None,
    out: str | Path,
    skip_missing: bool = False,
) -> CutClips:
    """Write ``<sample_id>.mp4``, H.264, for each question: every frame from its first one to its observation.

    Frames keep their number, order and size: frame i of the clip is frame ``first + i`` of the source. Each file
    appears whole or not at all. A clip that is there, cut of the same frames in the same way, is kept.

    Args:
        annotations: the records' file, for messages.
        records: all of the split.
        footage: by sample id, of those that have all frames.
        missing: about the others; None if there are none.
        out: the folder of the clips.
        skip_missing: leave out questions with a damaged frame, instead of refusing.

    Raises:
        LmmsEgoplanError: a frame is damaged. Clips that were cut until then stay.
        OSError: the folder cannot be written.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    cut = kept = size = 0
    seconds = 0.0
    failed: dict[int | str, str] = {}
    with progress_bar(len(footage), "Cutting clips") as bar:
        for record in records:
            if record.sample_id not in footage:
                continue
            path, source = out / f"{record.sample_id}.mp4", footage[record.sample_id]
            label, fps = _label(record, source), frames_per_second(record.video_source, record.video_id)
            if _is_cut(path, label):
                kept += 1
            else:
                try:
                    write_video(
                        path,
                        _frames(source),
                        fps,
                        crf=CRF,
                        key_every=KEY_EVERY,
                        odd_sizes=True,
                        comment=label.to_text(),
                    )
                except FrameError as error:
                    if not skip_missing:
                        raise LmmsEgoplanError(
                            f"{annotations}: sample_id {record.sample_id}: {error}\n{cut} clips were cut and stay in "
                            f"{out}. Go on with the same command, or without questions whose frames are damaged: "
                            "--skip-missing"
                        ) from error
                    failed[record.sample_id] = str(error)
                    continue
                cut += 1
            size += path.stat().st_size
            seconds += len(source.frames) / fps
            bar.update()
    return CutClips(cut, kept, len(records), seconds, size, failed, missing)


def _label(record: Shown, source: Footage) -> Label:
    """Of a folder, the first and the last frame tell versions apart, as for progress videos."""
    first, last = progress_span(record)
    files = [frame_path(source.path, number) for number in (first, last)] if source.path.is_dir() else [source.path]
    version = " ".join(file_version(file.stat()) for file in files)
    return Label(record.sample_id, record.video_source, record.video_id, first, last, version, _ENCODER)


def _is_cut(path: Path, label: Label) -> bool:
    try:
        return path.is_file() and read_label(path) == label
    except FrameError:
        return False


def _frames(source: Footage) -> Iterator[Image.Image]:
    if not source.path.is_dir():
        return stream_video_frames(source.path, source.frames)
    return (image for number in source.frames for image in read_frame_folder(source.path, [number]))
