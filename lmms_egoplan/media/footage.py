"""Check that all frames that a task may read exist and are undamaged."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from loguru import logger

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import FrameError, check_frame_folder, check_video_frames
from lmms_egoplan.progress import progress_bar, track

Id = TypeVar("Id", bound=Hashable)
Video = TypeVar("Video", bound=Hashable)
Question = TypeVar("Question")


@dataclass(frozen=True)
class Footage:
    """Location of a question's frames.

    Attributes:
        path: Absolute path of the video file or frame folder.
        version: Text that changes when a file that the question may read changes.
        frames: Numbers of all frames that a task may read, increasing.
    """

    path: Path
    version: str
    frames: Sequence[int]


class MissingFootage(NamedTuple):
    """Questions about one video that lack frames, and the reason for the first of them."""

    video: Any
    reason: str
    ids: list[Any]


def warn_of_missing_footage(lost: Sequence[MissingFootage]) -> None:
    """Log the number of items without footage."""
    if lost:
        logger.warning(
            f"Skipped without footage: {sum(len(group.ids) for group in lost)}. First: "
            f"{lost[0].reason}"
        )


def find_footage(
    questions: Iterable[Question],
    id_of: Callable[[Question], Id],
    video_of: Callable[[Question], Video],
    find: Callable[[Sequence[Question]], Mapping[Id, Footage | str]],
    *,
    verify: bool,
) -> tuple[dict[Id, Footage], list[MissingFootage]]:
    """Find the footage of the questions, and list the questions with missing footage.

    Args:
        questions: The questions to check.
        id_of: Returns the ID of a question.
        video_of: Returns the ID of its video.
        find: Gets all questions about one video, at least one. Returns the footage of each, or its
            problem as a text. An `LmmsEgoplanError` or OSError that it raises is the problem of all
            of them.
        verify: Decode all frames that a task may read. Damaged frames count as missing.

    Returns:
        The complete footage by question ID, and the questions with missing footage by video.
    """
    by_video: dict[Video, list[Question]] = {}
    for question in questions:
        by_video.setdefault(video_of(question), []).append(question)
    complete: dict[Video, dict[Id, Footage]] = {}
    problems: list[tuple[Video, dict[Id, str]]] = []
    for video, group in track(by_video.items(), "Checking videos"):
        try:
            results = find(group)
        except (LmmsEgoplanError, OSError) as error:
            results = dict.fromkeys(map(id_of, group), str(error))
        complete[video] = {
            key: value for key, value in results.items() if isinstance(value, Footage)
        }
        problems.append(
            (video, {key: value for key, value in results.items() if isinstance(value, str)})
        )
    if verify:
        with progress_bar(
            sum(len(_all_frames(of_video)) for of_video in complete.values()), "Decoding frames"
        ) as bar:
            for video, of_video in complete.items():
                damaged = _damaged(of_video, bar.update) if of_video else {}
                problems.append((video, damaged))
                for key in damaged:
                    del of_video[key]
    footage = {key: value for of_video in complete.values() for key, value in of_video.items()}
    return footage, [
        MissingFootage(video, next(iter(texts.values())), [*texts])
        for video, texts in problems
        if texts
    ]


def _all_frames(footage: Mapping[Id, Footage]) -> set[int]:
    return set().union(*(of_question.frames for of_question in footage.values()))


def _damaged(footage: Mapping[Id, Footage], advance: Callable[[], Any]) -> dict[Id, str]:
    """Return the error of the first damaged frame of each affected question about one video."""
    (path,) = {of_question.path for of_question in footage.values()}
    check = check_frame_folder if path.is_dir() else check_video_frames
    damaged: dict[int, str] = {}
    try:
        for number, error in check(path, _all_frames(footage)):
            advance()
            if error is not None:
                damaged[number] = str(error)
    except FrameError as error:  # The video has changed since the first check.
        return dict.fromkeys(footage, str(error))
    first = {
        key: next(filter(damaged.get, of_question.frames), None)
        for key, of_question in footage.items()
    }
    return {key: damaged[number] for key, number in first.items() if number is not None}
