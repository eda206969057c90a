"""Match the rows of a public copy to the official questions, and find each question's media in the
copy.

``copies.yaml`` describes the layouts. A copy contributes only media; all texts are those of the
official annotations.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from annotated_types import Len
from PIL import Image, ImageChops, ImageStat

from lmms_egoplan.benchmarks.egoplan.clips import ReadyClip, fit_clip
from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import Question, load_list
from lmms_egoplan.benchmarks.egoplan.sources import Id
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside, write_whole
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import frame_path, read_frame_folder, read_image, read_video_frames
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.paths import data_root, module_yaml
from lmms_egoplan.progress import track
from lmms_egoplan.storage import fingerprint
from lmms_egoplan.validation import Text, listing, quoted, read_as

LAYOUTS: dict[str, dict[str, Any]] = module_yaml(__file__)
LISTS = ("missing", "changed", "extra", "duplicates", "ambiguous", "unreadable")
"""The lists of differences between a copy and the official file, see `read_copy`."""
_PROGRESS = "task_progress_metadata"
# Fields that must have the official value if a row has them.
_SAME = ("video_id", "current_observation_frame", "task_start_frame")
# A row that differs from a question of the same goal in more parts is not about this question.
_MOST_CHANGES = 2
_GOAL = re.compile(r"in order to (.+?)\s*\?", re.DOTALL)
# Table rows in memory at a time, with their images.
_BATCH = 16
# Observations are compared in grey at this size, by the mean difference in levels of 255. For 60
# photographs of EgoThink, resizing and H.264 change at most 2.2 levels, a shift by 1/16 of the
# width 10.7 or more.
_SMALL = (32, 32)
_MOST_DIFFERENCE = 8
_Choices = Annotated[list[Text], Len(len(LETTERS), len(LETTERS))]

Copied = dict[Id, ReadyClip | str]
"""The media of each question that a row matches, or the problem with them."""


class _Row(NamedTuple):
    """A row of a copy. `goal`, `choices` and `right` are words, see `_words`."""

    where: str
    sample_id: str
    values: Mapping[str, Any]
    goal: str
    choices: list[str]
    right: str

    def differences(self, question: Question) -> list[str]:
        """List the parts that differ from a question with the same goal."""
        choices, values = [_words(choice) for choice in question.choices], self.values
        past = [[action.start_frame, action.stop_frame] for action in question.past_actions]
        spans = [
            [action.get(name) for name in ("start_frame", "stop_frame")]
            for action in values.get(_PROGRESS) or ()
        ]
        differs = {
            "choices": {*self.choices} != {*choices},
            "order of choices": {*self.choices} == {*choices} and self.choices != choices,
            "right choice": self.right != _words(question.answer),
            _PROGRESS: values.get(_PROGRESS) is not None and spans != past,
            **{
                name: values.get(name) not in (None, getattr(question, name, values.get(name)))
                for name in _SAME
            },
        }
        return [name for name, is_other in differs.items() if is_other]


def read_copy(
    name: str, root: Path, part: str, questions: Sequence[Question]
) -> tuple[Copied, dict[str, Any]]:
    """Match the rows of a copy to questions by content, and find the media of each matched
    question.

    A row matches a question with the same goal, right choice, and choices in the same order. Past
    actions and `_SAME` must agree if the row has them. The sample id only decides between questions
    that are equal otherwise. Images inside a table are written below the data root.

    Args:
        name: A key of ``copies.yaml``.
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
    names = [name for name, layout in LAYOUTS.items() if part in layout["rows"]]
    if name not in names:
        raise LmmsEgoplanError(
            f"--copy {name}: no such copy of {part}; known copies of it: "
            f"{', '.join(names) or 'none'}"
        )
    layout, by_id = LAYOUTS[name], {question.sample_id: question for question in questions}
    files = next((paths for glob in layout["rows"][part] if (paths := sorted(root.glob(glob)))), [])
    by_goal = defaultdict[str, list[Question]](list)
    for question in questions:
        by_goal[_words(question.task_goal)].append(question)
    folders = [root, *filter(Path.is_dir, root.glob("*"))]
    num_rows, media, changed = 0, Copied(), dict[Id, str]()
    lists: dict[str, list[Any]] = {kind: [] for kind in LISTS}
    changes: list[tuple[int, bool, Id, str, list[str]]] = []
    for where, values in (
        row for file in track(files, "Reading the copy") for row in _read_rows(file)
    ):
        num_rows += 1
        try:
            row = _read_row(layout, where, values)
        except LmmsEgoplanError as error:
            lists["unreadable"].append(str(error))
            continue
        parts = {question.sample_id: row.differences(question) for question in by_goal[row.goal]}
        equal = [key for key in parts if not parts[key]]
        equal = [key for key in equal if str(key) == row.sample_id] or equal
        if not equal:
            lists["extra"].append(row.where)
            changes += [
                (len(parts[key]), str(key) != row.sample_id, key, row.where, parts[key])
                for key in parts
            ]
        elif len(equal) > 1 or equal[0] in media:
            lists["ambiguous" if len(equal) > 1 else "duplicates"].append(
                f"{row.where}: {', '.join(map(str, equal))}"
            )
        else:
            media[equal[0]] = _find_media(
                layout, folders, data_root() / part.split()[0], row, by_id[equal[0]]
            )
    for num_parts, _, key, where, differences in sorted(changes, key=itemgetter(0, 1)):
        if (
            num_parts <= _MOST_CHANGES
            and where in lists["extra"]
            and key not in media
            and key not in changed
        ):
            changed[key] = f"{key}: {', '.join(differences)} ({where})"
            lists["extra"].remove(where)
    lists["changed"] += changed.values()
    lists["missing"] += [key for key in by_id if key not in media and key not in changed]
    if not media:
        rows = listing([f"{kind}: {row}" for kind in LISTS[1:] for row in lists[kind]], 5)
        reason = f"none of {num_rows} rows in {{}} matches a question" if files else "no file {}"
        reason = reason.format(" or ".join(layout["rows"][part]))
        raise LmmsEgoplanError(
            f"--copy {name} {root}: {reason}; use the folder of a complete copy\n{rows}".strip()
        )
    return media, {
        "name": name,
        "folder": str(root.resolve()),
        "rows": num_rows,
        "matched": len(media),
        **lists,
    }


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
    report: dict[str, Any] = {
        "compared": len(copied.keys() & sources.keys()),
        "other_size": [],
        "different": [],
    }
    for key in (key for key in copied if key in sources):
        images = [_observation(footage[key]) for footage in (copied, sources)]
        small = [image.convert("L").resize(_SMALL, Image.Resampling.BOX) for image in images]
        report["other_size"] += [key] if images[0].size != images[1].size else []
        report["different"] += (
            [key]
            if ImageStat.Stat(ImageChops.difference(*small)).mean[0] > _MOST_DIFFERENCE
            else []
        )
    return report


def _observation(footage: Footage) -> Image.Image:
    if path := getattr(footage, "observation", None):
        return read_image(path)
    read = read_frame_folder if footage.path.is_dir() else read_video_frames
    return read(footage.path, [footage.frames[-1]])[0]


def _read_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield location and values of each row of a table in JSON lines, JSON or parquet."""
    from pyarrow import ArrowException, parquet

    if path.suffix == ".jsonl":
        yield from ((where, parse_record(where, line)) for where, line in read_lines(path))
    elif path.suffix == ".json":
        yield from (
            (f"{path}, record {index}", row) for index, row in enumerate(load_list(path, "train"))
        )
    else:
        try:
            with parquet.ParquetFile(path) as table:
                rows = (row for batch in table.iter_batches(_BATCH) for row in batch.to_pylist())
                yield from ((f"{path}, row {index}", row) for index, row in enumerate(rows))
        except (OSError, ArrowException) as error:
            raise LmmsEgoplanError(
                f"{path}: cannot be read as parquet: {error}; download it again"
            ) from error


def _read_row(layout: Mapping[str, Any], where: str, values: Any) -> _Row:
    """Read the content of a row.

    Raises:
        LmmsEgoplanError: A field is wrong.
    """
    values = read_as(dict[str, Any], where, values)
    sample_id = values.get("sample_id", values.get("id"))
    where = f"{where}, sample_id {quoted(sample_id)}"
    read_as(list[dict[str, Any]], f"{where}, {_PROGRESS}", values.get(_PROGRESS) or [])
    goal = read_as(Text, f"{where}, {layout['goal']}", values.get(layout["goal"]))
    names, keys = layout["choices"], layout["answer"]
    options = values.get(names[0]) if len(names) == 1 else [values.get(name) for name in names]
    choices = [
        _words(option) for option in read_as(_Choices, f"{where}, {'/'.join(names)}", options)
    ]
    if layout.get("lettered"):
        if [choice[:2] for choice in choices] != [f"{letter} " for letter in LETTERS.lower()]:
            raise LmmsEgoplanError(
                f"{where}, {names[0]}: expected the letters A to D, found {quoted(options)}"
            )
        choices = [choice[2:] for choice in choices]
    answers = [_words(str(answer)) for key in keys if (answer := values.get(key)) is not None]
    right = {
        dict(zip(LETTERS.lower(), choices, strict=True)).get(answer, answer) for answer in answers
    }
    if len(right) != 1 or not right <= {*choices}:
        raise LmmsEgoplanError(
            f"{where}, {'/'.join(keys)}: expected the letter or text of one choice, found {answers}"
        )
    question = _GOAL.search(goal)
    return _Row(
        where,
        str(sample_id),
        values,
        _words(question[1] if question else goal),
        choices,
        right.pop(),
    )


def _words(text: str) -> str:
    """Return a text in lower case, without punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _find_media(
    layout: Mapping[str, Any], folders: Sequence[Path], store: Path, row: _Row, question: Question
) -> ReadyClip | str:
    """Return the media of a question, or the problem with them."""
    try:
        if "frames" in layout:
            return _store_frames(layout["frames"], folders[0], store / "copy_frames", row.values)
        image = _find_file(folders, layout["image"], row.values) if "image" in layout else None
        if image and row.values.get(_PROGRESS) == []:
            clip: ReadyClip | str = ReadyClip(image, "", range(1), "observation only")
        else:
            clip = fit_clip(_find_file(folders, layout["video"], row.values), question)
        if image and isinstance(clip, ReadyClip):
            check_image(image.read_bytes(), str(image))
            version = f"{clip.version} {file_version(image.stat())}"
            clip = replace(clip, version=version, frames=clip.frames[:-1], observation=image)
    except (LmmsEgoplanError, OSError) as error:
        clip = str(error)
    return f"{row.where}: {clip}" if isinstance(clip, str) else clip


def _find_file(folders: Sequence[Path], template: str, values: Mapping[str, Any]) -> Path:
    """Return the file that a row names, from the first folder that has it."""
    name = template.format_map(defaultdict(str, values))
    paths = [resolve_inside(folder, name) for folder in folders]
    if (path := next(filter(Path.is_file, paths), None)) is None:
        raise LmmsEgoplanError(f"{paths[0]}, from {template}: no such file")
    return path


def _store_frames(
    keys: Sequence[str], root: Path, store: Path, values: Mapping[str, Any]
) -> ReadyClip:
    """Write the images of a row to a frame folder, unchanged, numbered from 0.

    Raises:
        LmmsEgoplanError: An image is missing or damaged.
    """
    contents: list[bytes] = []
    for key in keys:
        images = values.get(key)
        for index, image in enumerate(images if isinstance(images, list) else [images]):
            file = (
                image
                if isinstance(image, dict)
                else {"bytes" if isinstance(image, bytes) else "path": image}
            )
            content = data if isinstance(data := file.get("bytes"), bytes) else b""
            if path := None if content else file.get("path"):
                content = resolve_inside(root, read_as(Text, f"{key}[{index}]", path)).read_bytes()
            check_image(content, f"{key}[{index}]")
            contents += [content] if [content] != contents[-1:] else []
    if not contents:
        raise LmmsEgoplanError(f"{'/'.join(keys)}: no image")
    version = fingerprint(sha256(content).hexdigest() for content in contents)
    for number, content in enumerate(contents):
        if not (path := frame_path(store / version, number)).exists():
            write_whole(path, content)
    return ReadyClip(
        store / version,
        version,
        range(len(contents)),
        "frames" if contents[1:] else "observation only",
    )
