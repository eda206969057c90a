"""Show the official questions from a public copy: match its rows, and find their media.

A copy contributes only media; all texts are those of the
official annotations.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Len
from PIL import Image, ImageChops, ImageStat

from lmms_egoplan.benchmarks.egoplan.clips import Fit, ReadyClip, fit_clip
from lmms_egoplan.benchmarks.egoplan.question import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import Question, load_list
from lmms_egoplan.benchmarks.egoplan.sources import Id
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside, write_whole
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import frame_path, read_frame_folder, read_image, read_video_frames
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.paths import data_root
from lmms_egoplan.progress import track
from lmms_egoplan.storage import fingerprint
from lmms_egoplan.validation import Text, listing, quoted, read_as

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


@dataclass(frozen=True)
class Layout:
    """Fields and folders of a public copy of questions with media.

    Attributes:
        rows: For each benchmark and split, globs below the copy's folder. The files of the first
            glob with files are read.
        choices: One field with a list, or one field per choice.
        answer: Fields with the letter or the text of the right choice. All that exist must agree.
        goal: Field with the goal, or with a question that contains "in order to GOAL?".
        video: File of the progress, with fields in braces, in the copy's folder or in one of its
            subfolders.
        image: File of the observation, as for `video`; None if the copy has no such files.
        frames: Fields with images or lists of images, oldest first, the observation last; instead
            of `video` and `image`.
        is_lettered: True if the choices begin with their letters.
    """

    rows: Mapping[str, Sequence[str]]
    choices: Sequence[str]
    answer: Sequence[str]
    goal: str
    video: str = ""
    image: str | None = None
    frames: Sequence[str] | None = None
    is_lettered: bool = False


_CHOICE_FIELDS = ("choice_a", "choice_b", "choice_c", "choice_d")

# https://huggingface.co/datasets/TencentARC/SEED-Bench-R1; fields and folders as in infer.py and
# grpo.py of commit 12e8fcc
SEED_BENCH_R1 = Layout(
    rows={
        "egoplan val": ["annotations/validation_L[12].jsonl"],
        "egoplan_bench2 test": ["annotations/validation_L3.jsonl"],
    },
    choices=_CHOICE_FIELDS,
    answer=["golden_choice_idx", "answer"],
    goal="task_goal",
    video="videos/{video_source}/{video_basename}",
    image="images/{video_source}/{current_observation_basename}",
)
# https://huggingface.co/datasets/EgoLife-v1/EgoPlan, also lmms-lab/EgoPlan; fields as on the card,
# video names as in lmms-eval 0.7.3, tasks/egoplan/utils.py
EGOLIFE = Layout(
    rows={"egoplan val": ["**/*.parquet"]},
    choices=_CHOICE_FIELDS,
    answer=["golden_choice_idx", "answer"],
    goal="task_goal",
    video="{sample_id}.mp4",
)
# https://huggingface.co/datasets/IffYuan/ego-plan; fields as in EgoPlan2Dataset of
# DeepCybo-PhysAI/PhysBrainEvalKit, commit c95d9ee. The wording of its questions was not seen
IFFYUAN = Layout(
    rows={"egoplan_bench2 test": ["**/*.parquet", "**/*.jsonl", "**/*.json"]},
    choices=["options"],
    answer=["answer"],
    goal="question",
    frames=["video", "image"],
    is_lettered=True,
)
# https://huggingface.co/datasets/nv-njb/egoplan-bench2; fields as in lmms-eval 0.7.3,
# tasks/egoplan2/utils.py
NV_NJB = Layout(
    rows={"egoplan_bench2 test": ["**/*.parquet"]},
    choices=_CHOICE_FIELDS,
    answer=["ground_truth"],
    goal="task_goal",
    frames=["keyframes"],
)

LAYOUTS = {
    "seed-bench-r1": SEED_BENCH_R1,
    "egolife": EGOLIFE,
    "iffyuan": IFFYUAN,
    "nv-njb": NV_NJB,
}
"""The layouts by the name that ``data prepare ... --copy NAME DIR`` gets."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a copy. `goal`, `choices` and `right` are words, see `_words`."""

    where: str
    sample_id: str
    values: Mapping[str, Any]
    goal: str
    choices: list[str]
    right: str

    def differences(self, question: Question) -> list[str]:
        """List the parts that differ from a question with the same goal."""
        differences = []
        choices = [_words(choice) for choice in question.choices]
        if {*self.choices} != {*choices}:
            differences.append("choices")
        elif self.choices != choices:
            differences.append("order of choices")
        if self.right != _words(question.answer):
            differences.append("right choice")
        if self._has_other_progress(question):
            differences.append(_PROGRESS)
        for name in _SAME:
            value = self.values.get(name)
            if value is not None and value != getattr(question, name, value):
                differences.append(name)
        return differences

    def _has_other_progress(self, question: Question) -> bool:
        """Return True if the row has past actions that differ from those of a question."""
        actions = self.values.get(_PROGRESS)
        if actions is None:
            return False
        spans = [(action.get("start_frame"), action.get("stop_frame")) for action in actions or ()]
        return spans != [(past.start_frame, past.stop_frame) for past in question.past_actions]


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
        for where, values in _read_rows(file):
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
            self._by_goal[_words(question.task_goal)].append(question)
        self._near_misses: list[_NearMiss] = []

    def add(self, where: str, values: Any) -> None:
        """Match a row."""
        try:
            row = _read_row(self._layout, where, values)
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


def _read_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield location and values of each row of a table in JSON lines, JSON or parquet."""
    from pyarrow import ArrowException, parquet

    if path.suffix == ".jsonl":
        for where, line in read_lines(path):
            yield where, parse_record(where, line)
    elif path.suffix == ".json":
        for index, row in enumerate(load_list(path, "train")):
            yield f"{path}, record {index}", row
    else:
        try:
            with parquet.ParquetFile(path) as table:
                index = 0
                for batch in table.iter_batches(_BATCH):
                    for row in batch.to_pylist():
                        yield f"{path}, row {index}", row
                        index += 1
        except (OSError, ArrowException) as error:
            raise LmmsEgoplanError(
                f"{path}: cannot be read as parquet: {error}; download it again"
            ) from error


def _read_row(layout: Layout, where: str, values: Any) -> _Row:
    """Read the content of a row.

    Raises:
        LmmsEgoplanError: A field is wrong.
    """
    values = read_as(dict[str, Any], where, values)
    sample_id = values.get("sample_id", values.get("id"))
    where = f"{where}, sample_id {quoted(sample_id)}"
    read_as(list[dict[str, Any]], f"{where}, {_PROGRESS}", values.get(_PROGRESS) or [])
    goal = read_as(Text, f"{where}, {layout.goal}", values.get(layout.goal))
    choices = _read_choices(layout, where, values)
    right = _read_right_choice(layout, where, values, choices)
    question = _GOAL.search(goal)
    return _Row(
        where=where,
        sample_id=str(sample_id),
        values=values,
        goal=_words(question[1] if question else goal),
        choices=choices,
        right=right,
    )


def _read_choices(layout: Layout, where: str, values: Mapping[str, Any]) -> list[str]:
    """Return the words of a row's choices, without their letters."""
    names = layout.choices
    options = values.get(names[0]) if len(names) == 1 else [values.get(name) for name in names]
    texts = read_as(_Choices, f"{where}, {'/'.join(names)}", options)
    choices = [_words(text) for text in texts]
    if not layout.is_lettered:
        return choices
    if [choice[:2] for choice in choices] != [f"{letter} " for letter in LETTERS.lower()]:
        raise LmmsEgoplanError(
            f"{where}, {names[0]}: expected the letters A to D, found {quoted(options)}"
        )
    return [choice[2:] for choice in choices]


def _read_right_choice(
    layout: Layout, where: str, values: Mapping[str, Any], choices: Sequence[str]
) -> str:
    """Return the words of a row's right choice."""
    answers = []
    for key in layout.answer:
        if values.get(key) is not None:
            answers.append(_words(str(values[key])))
    by_letter = dict(zip(LETTERS.lower(), choices, strict=True))
    right = {by_letter.get(answer, answer) for answer in answers}
    if len(right) != 1 or not right <= {*choices}:
        fields = "/".join(layout.answer)
        raise LmmsEgoplanError(
            f"{where}, {fields}: expected the letter or text of one choice, found {answers}"
        )
    return right.pop()


def _words(text: str) -> str:
    """Return a text in lower case, without punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _find_media(
    layout: Layout, folders: Sequence[Path], store: Path, row: _Row, question: Question
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
    layout: Layout, folders: Sequence[Path], row: _Row, question: Question
) -> ReadyClip | str:
    """Return the clip of a question, whose last frame is the copy's image of the observation.

    A copy without such images has the observation in the clip. If the clip does not fit, return the
    problem.
    """
    if layout.image is None:
        return fit_clip(_find_file(folders, layout.video, row.values), question)
    image = _find_file(folders, layout.image, row.values)
    if row.values.get(_PROGRESS) == []:
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
