"""Find the footage of each question, or say why it has none."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.footage.clips import count_clips, find_clip
from lmms_egoplan.benchmarks.egoplan.footage.copies import compare_observations, read_copy
from lmms_egoplan.benchmarks.egoplan.footage.sources import (
    Id,
    VideoInfo,
    Warn,
    count_frame_folders,
    find_video,
    read_video_info,
    record_problem,
)
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, Question
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import (
    Footage,
    MissingFootage,
    find_footage,
    warn_of_missing_footage,
)
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.media.layout import Layout, all_missing, count_files, no_folder
from lmms_egoplan.progress import notify
from lmms_egoplan.storage import refusal

_OPTIONS = {EPIC_KITCHENS: "--epic-kitchens", EGO4D: "--ego4d"}

Roots = Mapping[str, str | Path | None]
"""Folder of each video source; None if it is not set."""


@dataclass(frozen=True)
class Media:
    """Location of the questions' footage, and how to treat questions without footage.

    Attributes:
        roots: Folder of each source in the data set. EPIC-KITCHENS' contains
            ``P01/rgb_frames/P01_13/frame_0000000760.jpg`` (see also `sources.frame_folder`),
            Ego4D's ``<video_id>.mp4``.
        clips: Folder with a ready-cut clip of each question (`clips.find_clip`), instead of the
            sources.
        epic_video_info: EPIC-KITCHENS-100's official list of videos (`sources.read_video_info`).
            With it, these count as missing: unlisted ids, observations after a video's end, and
            frames extracted at another rate.
        skip_missing: Skip questions with missing or damaged frames instead of raising an error.
        verify: Decode every frame that a task with any settings may read: from a question's first
            frame to its observation, or, in a ready clip, all frames that may be shown.
        copy: Name and folder of a public copy (`copies.read_copy`), instead of the sources. With
            sources, the observations of both are compared.
    """

    roots: Roots
    clips: str | Path | None = None
    epic_video_info: str | Path | None = None
    skip_missing: bool = False
    verify: bool = False
    copy: tuple[str, Path] | None = None

    def __post_init__(self) -> None:
        """Reject clips together with other media."""
        sources = " or ".join(_OPTIONS[source] for source in self.roots)
        for option, value in {"--copy": self.copy, sources: any(self.roots.values())}.items():
            if self.clips is not None and value:
                raise LmmsEgoplanError(
                    f"--clips cannot be combined with {option}; drop one of them"
                )


@dataclass(frozen=True)
class FootageIndex:
    """The footage of questions, as `find_media` finds it.

    Attributes:
        footage: Footage by sample id.
        lost: Questions without footage.
        message: Message about the questions without footage; empty if all have footage.
        warnings: Problems that may be harmless.
        is_verified: True if all frames were decoded.
        copy: The report of `copies.read_copy`; None without a copy.
    """

    footage: dict[Id, Footage]
    lost: list[MissingFootage]
    message: str
    warnings: list[str]
    is_verified: bool
    copy: dict[str, Any] | None


def check_media(
    questions: Sequence[Question], roots: Roots, *, skip_missing: bool
) -> dict[Id, Path]:
    """Return by sample id the video file or frame folder that has all frames of the question.

    Raises:
        LmmsEgoplanError: A folder or frames are missing. With `skip_missing`, only if no question
            has all frames.
    """
    media = find_media("annotations", questions, Media(roots, skip_missing=skip_missing))
    warn_of_missing_footage(media.lost)
    return {sample_id: footage.path for sample_id, footage in media.footage.items()}


def find_media(
    annotations: str | Path, questions: Sequence[Question], media: Media, part: str = ""
) -> FootageIndex:
    """Find the footage of each question.

    Args:
        annotations: File of the records, for messages.
        part: Benchmark and split, only needed for a copy.

    Raises:
        LmmsEgoplanError: A folder is missing, or frames are missing and `skip_missing` is false.
            With `skip_missing`, only if no question has all frames.
    """
    videos = None
    if media.epic_video_info is not None:
        videos = read_video_info(Path(media.epic_video_info))
    copied = None
    copy = None
    if media.copy is not None:
        copied, copy = read_copy(*media.copy, part, questions)
        questions = [record for record in questions if record.sample_id in copied]
    else:
        _check_folders(questions, media)
        _check_content(questions, media)
    problems = _video_problems(annotations, questions, videos)
    warnings: list[str] = []

    def find(group: Sequence[Question]) -> dict[Id, Footage | str]:
        ids = {record.sample_id for record in group}
        results: dict[Id, Footage | str] = {key: problems[key] for key in problems if key in ids}
        valid = [record for record in group if record.sample_id not in problems]
        if copied is not None:
            results |= {record.sample_id: copied[record.sample_id] for record in valid}
        elif media.clips is not None:
            results |= {record.sample_id: find_clip(media.clips, record) for record in valid}
        elif valid:
            results |= _find_in_source(valid, media, videos, warnings.append)
        return results

    footage, lost = find_footage(
        questions, attrgetter("sample_id"), _file_of(media), find, verify=media.verify
    )
    message = _missing_message(lost, len(questions), media) if lost else ""
    if lost and not (media.skip_missing and footage):
        raise LmmsEgoplanError(message)
    if copy and any(media.roots.values()):
        sources = find_media(
            annotations, questions, replace(media, copy=None, skip_missing=True, verify=False)
        )
        copy["observations"] = compare_observations(footage, sources.footage)
    return FootageIndex(
        footage=footage,
        lost=lost,
        message=message,
        warnings=warnings,
        is_verified=media.verify,
        copy=copy,
    )


def _file_of(media: Media) -> Callable[[Question], tuple[str, Any]]:
    """Return a function for what identifies a question's file: its video, or its clip."""
    if media.clips is None and media.copy is None:
        return attrgetter("video_source", "video_id")
    return attrgetter("video_source", "sample_id")


def _video_problems(
    annotations: str | Path, questions: Sequence[Question], videos: Mapping[str, VideoInfo] | None
) -> dict[Id, str]:
    """Describe the questions that do not fit EPIC-KITCHENS' official list of videos."""
    problems: dict[Id, str] = {}
    if videos is None:
        return problems
    for index, record in enumerate(questions):
        if record.video_source != EPIC_KITCHENS:
            continue
        problem = record_problem(record.video_id, record.current_observation_frame, videos)
        if problem:
            where = f"{annotations}: record {index}, sample_id {record.sample_id}"
            problems[record.sample_id] = f"{where}, {problem}"
    return problems


def _find_in_source(
    group: Sequence[Question], media: Media, videos: Mapping[str, VideoInfo] | None, warn: Warn
) -> dict[Id, Footage | str]:
    """Find the footage of questions on one source video."""
    source = group[0].video_source
    root = media.roots[source]
    if root is None:
        raise FrameError(f"{_OPTIONS[source]} is not set")
    return find_video(root, group, videos, warn)


def _check_folders(questions: Sequence[Question], media: Media) -> None:
    """Check that the folder of clips exists, or that each needed video source has a folder.

    With `skip_missing`, one source is enough.
    """
    if media.clips is not None:
        if not Path(media.clips).is_dir():
            raise LmmsEgoplanError(no_folder(Path(media.clips), _clips_layout(questions)))
        return
    may_skip = media.skip_missing and any(root is not None for root in media.roots.values())
    for source, count in Counter(record.video_source for record in questions).items():
        root = media.roots[source]
        download = f"(download: {records.VIDEO_URLS[source]})"
        if root is None and not may_skip:
            raise LmmsEgoplanError(
                f"{count} of {len(questions)} questions need videos of {source}; set "
                f"{_OPTIONS[source]} DIR {download} or skip these questions with --skip-missing"
            )
        if root is not None and not Path(root).is_dir():
            raise LmmsEgoplanError(no_folder(Path(root), _layout(source, questions)))


def _check_content(questions: Sequence[Question], media: Media) -> None:
    """Check that each folder has at least one of its videos or clips.

    With `skip_missing`, one folder with videos is enough, and the others are reported.
    """
    folders: list[tuple[Path, Layout]] = []
    if media.clips is not None:
        folders.append((Path(media.clips), _clips_layout(questions)))
    else:
        for source in dict.fromkeys(record.video_source for record in questions):
            root = media.roots[source]
            if root is not None:
                folders.append((Path(root), _layout(source, questions)))
    problems = [all_missing(root, layout) for root, layout in folders if not layout.count(root)]
    can_skip = len(problems) < len(folders)
    if problems and not (media.skip_missing and can_skip):
        skip = ". To skip their questions, add --skip-missing" if can_skip else ""
        raise LmmsEgoplanError("\n".join(problems) + skip)
    for line in problems:
        notify(line)


def _layout(source: str, questions: Sequence[Question]) -> Layout:
    """Describe the expected content of a source's folder."""
    ids = list(
        dict.fromkeys(record.video_id for record in questions if record.video_source == source)
    )
    is_epic = source == EPIC_KITCHENS
    files = [f"{video_id}.mp4" for video_id in ids]
    participant = ids[0].split("_")[0]
    return Layout(
        option=_OPTIONS[source],
        names=ids,
        item="video",
        example=f"{participant}/rgb_frames/{ids[0]}/frame_0000000001.jpg" if is_epic else files[0],
        count=partial(count_frame_folders, video_ids=ids)
        if is_epic
        else partial(count_files, names=files),
        has_folders=is_epic,
        url=records.VIDEO_URLS[source],
    )


def _clips_layout(questions: Sequence[Question]) -> Layout:
    """Describe the expected content of a folder of clips."""
    return Layout(
        option="--clips",
        names=[str(record.sample_id) for record in questions],
        item="clip",
        example=f"{questions[0].sample_id}.mp4",
        count=partial(count_clips, records=questions),
    )


def _missing_message(lost: Sequence[MissingFootage], num_records: int, media: Media) -> str:
    """Describe the questions without footage, and the reason for each file."""
    per_source = Counter[str]()
    for (source, _), _, sample_ids in lost:
        per_source[source] += len(sample_ids)
    num_lost = per_source.total()
    state = "missing or damaged" if media.verify else "missing"
    folder = media.clips
    if media.copy and not folder:
        _, folder = media.copy
    if folder:
        lines = [
            f"the clips of {num_lost} of {num_records} questions in {folder} are {state} "
            "or do not fit:"
        ]
        problems = [f"sample_id {sample_id}: {reason}" for (_, sample_id), reason, _ in lost]
    else:
        lines = [f"the frames of {num_lost} of {num_records} questions are {state}:"]
        for source, count in per_source.items():
            download = records.VIDEO_URLS[source]
            lines.append(f"  {count} from {source} ({_OPTIONS[source]}; download: {download})")
        num_videos = len({video for video, _, _ in lost})
        lines.append(f"in {num_videos} videos:")
        problems = [
            f"{video_id} (questions: {len(ids)}): {reason}" for (_, video_id), reason, ids in lost
        ]
    how = "add them, or skip their questions"
    return refusal("\n".join(lines), problems, how, "question", skip_missing=media.skip_missing)
