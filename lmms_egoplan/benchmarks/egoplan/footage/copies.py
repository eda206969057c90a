"""Show the official questions from a public copy: match its rows, and find their media.

A copy contributes only media; all texts are those of the official annotations.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops, ImageStat

from lmms_egoplan.benchmarks.egoplan.footage.clips import Fit, ReadyClip, fit_clip
from lmms_egoplan.benchmarks.egoplan.footage.copy_rows import (
    LAYOUTS,
    PROGRESS,
    Layout,
    Row,
    read_row,
    read_rows,
    words_of,
)
from lmms_egoplan.benchmarks.egoplan.footage.sources import Id
from lmms_egoplan.benchmarks.egoplan.records import Question
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside, write_whole
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import frame_path, read_frame_folder, read_image, read_video_frames
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.paths import data_root
from lmms_egoplan.progress import track
from lmms_egoplan.storage import fingerprint
from lmms_egoplan.validation import Text, listing, read_as

LISTS = ("missing", "changed", "extra", "duplicates", "ambiguous", "unreadable")
"""The lists of differences between a copy and the official file, see `read_copy`."""
# A row that differs from a question of the same goal in more parts is not about this question.
_MOST_CHANGES = 2
# Observations are compared in grey at this size, by the mean difference in levels of 255. For 60
# photographs of EgoThink, resizing and H.264 change at most 2.2 levels, a shift by 1/16 of the
# width 10.7 or more.
_SMALL = (32, 32)
_MOST_DIFFERENCE = 8

Copied = dict[Id, ReadyClip | str]
"""The media of each question that a row matches, or the problem with them."""


@dataclass(frozen=True, slots=True)
class _NearMiss:
    """A question and a row of the same goal that differ."""

    question_id: Id
    has_same_id: bool
    where: str
    differences: list[str]


def read_copy(
    name: str, root: Path, part: str, questions: Sequence[Question]
) -> tuple[Copied, dict[str, Any]]:
    """Match the rows of a copy to questions by content, and find the media of each.

    A row matches a question with the same goal, right choice, and choices in the same order. Past
    actions and `_SAME` must agree if the row has them. The sample id only decides between questions
    that are equal otherwise. Images inside a table are written below the data root.

    Args:
        name: A key of `LAYOUTS`.
        root: Folder of the copy.
        part: Benchmark and split, such as ``egoplan val``.
        questions: All official questions of the split, with answers.

    Returns:
        The media, and a report: ``name``, ``folder``, the numbers ``rows`` and ``matched``, and
        these lists:

        - ``missing``: sample ids of the questions without a row
        - ``changed``: questions from which a row of the same goal differs in up to `_MOST_CHANGES`
          parts, with both
        - ``extra``: rows without an official question
        - ``duplicates``: rows whose question an earlier row matches
        - ``ambiguous``: rows that match several questions
        - ``unreadable``: rows with a wrong field

    Raises:
        LmmsEgoplanError: The copy is unknown, does not contain the split, or has no row of it. A
            file cannot be read.
    """
    layout = _layout_of(name, part)
    files = _files_of_first_glob(root, layout.rows[part])
    matching = _Matching(layout, root, data_root() / part.split()[0], questions)
    num_rows = 0
    for file in track(files, "Reading the copy"):
        for where, values in read_rows(file):
            num_rows += 1
            matching.add(where, values)
    matching.list_changed_and_missing()
    if not matching.media:
        globs = " or ".join(layout.rows[part])
        if files:
            reason = f"none of {num_rows} rows in {globs} matches a question"
        else:
            reason = f"no file {globs}"
        rows = listing(matching.unmatched_rows(), 5)
        raise LmmsEgoplanError(
            f"--copy {name} {root}: {reason}; use the folder of a complete copy\n{rows}".strip()
        )
    report = {
        "name": name,
        "folder": str(root.resolve()),
        "rows": num_rows,
        "matched": len(matching.media),
        **matching.lists,
    }
    return matching.media, report


def _layout_of(name: str, part: str) -> Layout:
    """Return the layout of a copy that contains a benchmark's split."""
    names = [name for name, layout in LAYOUTS.items() if part in layout.rows]
    if name not in names:
        raise LmmsEgoplanError(
            f"--copy {name}: no such copy of {part}; known copies of it: "
            f"{', '.join(names) or 'none'}"
        )
    return LAYOUTS[name]


def _files_of_first_glob(root: Path, globs: Sequence[str]) -> list[Path]:
    for glob in globs:
        files = sorted(root.glob(glob))
        if files:
            return files
    return []


class _Matching:
    """The rows of a copy that match questions, and lists of all others.

    Attributes:
        media: The media of each question that a row matches.
        lists: The differences by the names in `LISTS`.
    """

    def __init__(
        self, layout: Layout, root: Path, store: Path, questions: Sequence[Question]
    ) -> None:
        self.media = Copied()
        self.lists: dict[str, list[Any]] = {kind: [] for kind in LISTS}
        self._layout = layout
        self._folders = [root, *(path for path in root.glob("*") if path.is_dir())]
        self._store = store
        self._questions = {question.sample_id: question for question in questions}
        self._by_goal = defaultdict[str, list[Question]](list)
        for question in questions:
            self._by_goal[words_of(question.task_goal)].append(question)
        self._near_misses: list[_NearMiss] = []

    def add(self, where: str, values: Any) -> None:
        """Match a row."""
        try:
            row = read_row(self._layout, where, values)
        except LmmsEgoplanError as error:
            self.lists["unreadable"].append(str(error))
            return
        differences = {
            question.sample_id: row.differences(question) for question in self._by_goal[row.goal]
        }
        equal = [key for key, parts in differences.items() if not parts]
        with_same_id = [key for key in equal if str(key) == row.sample_id]
        if with_same_id:
            equal = with_same_id
        if not equal:
            self.lists["extra"].append(row.where)
            for key, parts in differences.items():
                miss = _NearMiss(key, str(key) == row.sample_id, row.where, parts)
                self._near_misses.append(miss)
        elif len(equal) > 1:
            keys = ", ".join(str(key) for key in equal)
            self.lists["ambiguous"].append(f"{row.where}: {keys}")
        elif equal[0] in self.media:
            self.lists["duplicates"].append(f"{row.where}: {equal[0]}")
        else:
            question = self._questions[equal[0]]
            self.media[equal[0]] = _find_media(
                self._layout, self._folders, self._store, row, question
            )

    def list_changed_and_missing(self) -> None:
        """After the last row, list the questions that no row matches.

        A row that is close to such a question moves from ``extra`` to ``changed``.
        """
        changed: dict[Id, str] = {}
        closest_first = sorted(
            self._near_misses, key=lambda miss: (len(miss.differences), not miss.has_same_id)
        )
        for miss in closest_first:
            key = miss.question_id
            is_close = len(miss.differences) <= _MOST_CHANGES
            is_open = key not in self.media and key not in changed
            if is_close and is_open and miss.where in self.lists["extra"]:
                changed[key] = f"{key}: {', '.join(miss.differences)} ({miss.where})"
                self.lists["extra"].remove(miss.where)
        self.lists["changed"] += changed.values()
        self.lists["missing"] += [
            key for key in self._questions if key not in self.media and key not in changed
        ]

    def unmatched_rows(self) -> list[str]:
        """Return the rows that match no question, each with its list."""
        rows = []
        for kind in LISTS[1:]:
            rows += [f"{kind}: {row}" for row in self.lists[kind]]
        return rows


def compare_observations(
    copied: Mapping[Id, Footage], sources: Mapping[Id, Footage]
) -> dict[str, Any]:
    """Compare the observations of a copy with those of the source videos.

    Returns:
        ``compared`` (number of questions), and the sample ids of images with an ``other_size`` and
        of ``different`` images, whose mean difference exceeds `_MOST_DIFFERENCE`.

    Raises:
        FrameError: An observation cannot be read.
    """
    common_ids = [key for key in copied if key in sources]
    other_size = []
    different = []
    for key in common_ids:
        copy_image = _observation(copied[key])
        source_image = _observation(sources[key])
        if copy_image.size != source_image.size:
            other_size.append(key)
        if _mean_difference(copy_image, source_image) > _MOST_DIFFERENCE:
            different.append(key)
    return {"compared": len(common_ids), "other_size": other_size, "different": different}


def _mean_difference(first: Image.Image, second: Image.Image) -> float:
    """Return the mean difference of two images, in grey at the size `_SMALL`."""
    first_small = first.convert("L").resize(_SMALL, Image.Resampling.BOX)
    second_small = second.convert("L").resize(_SMALL, Image.Resampling.BOX)
    return ImageStat.Stat(ImageChops.difference(first_small, second_small)).mean[0]


def _observation(footage: Footage) -> Image.Image:
    path = getattr(footage, "observation", None)
    if path:
        return read_image(path)
    read = read_frame_folder if footage.path.is_dir() else read_video_frames
    return read(footage.path, [footage.frames[-1]])[0]


def _find_media(
    layout: Layout, folders: Sequence[Path], store: Path, row: Row, question: Question
) -> ReadyClip | str:
    """Return the media of a question, or the problem with them."""
    try:
        if layout.frames is not None:
            return _store_frames(layout.frames, folders[0], store / "copy_frames", row.values)
        clip = _find_clip(layout, folders, row, question)
    except (LmmsEgoplanError, OSError) as error:
        clip = str(error)
    return f"{row.where}: {clip}" if isinstance(clip, str) else clip


def _find_clip(
    layout: Layout, folders: Sequence[Path], row: Row, question: Question
) -> ReadyClip | str:
    """Return the clip of a question, whose last frame is the copy's image of the observation.

    A copy without such images has the observation in the clip. If the clip does not fit, return the
    problem.
    """
    if layout.image is None:
        return fit_clip(_find_file(folders, layout.video, row.values), question)
    image = _find_file(folders, layout.image, row.values)
    if row.values.get(PROGRESS) == []:
        clip: ReadyClip | str = ReadyClip(image, "", range(1), "observation only")
    else:
        clip = fit_clip(_find_file(folders, layout.video, row.values), question)
    if isinstance(clip, str):
        return clip
    check_image(image.read_bytes(), str(image))
    version = f"{clip.version} {file_version(image.stat())}"
    return replace(clip, version=version, frames=clip.frames[:-1], observation=image)


def _find_file(folders: Sequence[Path], template: str, values: Mapping[str, Any]) -> Path:
    """Return the file that a row names, from the first folder that has it."""
    name = template.format_map(defaultdict(str, values))
    paths = [resolve_inside(folder, name) for folder in folders]
    for path in paths:
        if path.is_file():
            return path
    raise LmmsEgoplanError(f"{paths[0]}, from {template}: no such file")


def _store_frames(
    keys: Sequence[str], root: Path, store: Path, values: Mapping[str, Any]
) -> ReadyClip:
    """Write the images of a row to a frame folder, unchanged, numbered from 0.

    Raises:
        LmmsEgoplanError: An image is missing or damaged.
    """
    contents = _image_contents(keys, root, values)
    if not contents:
        raise LmmsEgoplanError(f"{'/'.join(keys)}: no image")
    version = fingerprint(sha256(content).hexdigest() for content in contents)
    for number, content in enumerate(contents):
        path = frame_path(store / version, number)
        if not path.exists():
            write_whole(path, content)
    fit: Fit = "frames" if len(contents) > 1 else "observation only"
    return ReadyClip(store / version, version, range(len(contents)), fit)


def _image_contents(keys: Sequence[str], root: Path, values: Mapping[str, Any]) -> list[bytes]:
    """Return the image files of a row, without one that equals the file before it."""
    contents: list[bytes] = []
    for key in keys:
        images = values.get(key)
        if not isinstance(images, list):
            images = [images]
        for index, image in enumerate(images):
            field = f"{key}[{index}]"
            content = _image_content(field, root, image)
            check_image(content, field)
            if not contents or content != contents[-1]:
                contents.append(content)
    return contents


def _image_content(field: str, root: Path, image: Any) -> bytes:
    """Return the content of an image: bytes, a path, or a mapping with one of them."""
    data = image
    path = image
    if isinstance(image, dict):
        data = image.get("bytes")
        path = image.get("path")
    if isinstance(data, bytes) and data:
        return data
    if path:
        return resolve_inside(root, read_as(Text, field, path)).read_bytes()
    return b""
