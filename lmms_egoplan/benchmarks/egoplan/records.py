"""Define the records of EgoPlan-Bench and EgoPlan-Bench2, and check every record of a file.

Sources: EgoPlan-Bench, secs. 3.1 and 3.3; EgoPlan-Bench2, sec. 3.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypedDict, TypeGuard, TypeVar

from annotated_types import Predicate
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS, QUESTION
from lmms_egoplan.benchmarks.file_kinds import (
    EGOPLAN_ANNOTATIONS,
    EGOPLAN_BENCH2_ANNOTATIONS,
    FileKind,
    check_kind,
)
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import REPEATED, JsonObject, check_record, read_json
from lmms_egoplan.storage import hub_files
from lmms_egoplan.validation import Checked, Expected, Text, expected, listing, problem, quoted

Split = Literal["val", "test"]
EPIC_KITCHENS = "EpicKitchens"
EGO4D = "Ego4D"
VIDEO_URLS = {EPIC_KITCHENS: "https://epic-kitchens.github.io", EGO4D: "https://ego4d-data.org"}
# Number of a video's first frame. EPIC's frame files count from 1, frames of Ego4D's videos from 0.
FIRST_FRAME = {EPIC_KITCHENS: 1, EGO4D: 0}
CHOICES = [f"choice_{letter.lower()}" for letter in LETTERS]
# "P01_13" is participant and video. Ego4D's ids are UUIDs.
VIDEO_ID = {
    EPIC_KITCHENS: re.compile(r"[A-Za-z0-9]{1,32}_[A-Za-z0-9_-]{1,64}"),
    EGO4D: re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
}
# EPIC-KITCHENS-100's newer videos, such as P01_103, have 50 frames per second. The frames of older
# ones, such as P01_13, were extracted at 60 per second, although the videos have 59.94, or in nine
# cases 29.97, 47.95 or 90. The start and stop frames of EPIC_100_validation.csv use the rates 50
# and 60. Ego4D's canonical videos have 30.
_NEWER = re.compile(r"P\d\d_1\d\d")
_NEWER_FPS = 50
_OLDER_FPS = 60
EGO4D_FPS = 30
# The value of `media` in results and summaries for questions shown from clips.
READY_CLIPS = "ready clips"
# Prefix of the demo's video ids. Scores over them are not comparable with published ones.
RENDERED = "rendered"

# In EgoPlan-Bench's published files, the key of the list of records, if there is one, is the file's
# name.
LIST_KEYS = EGOPLAN.files

# EgoPlan-Bench2's annotations.
HUB = "hub"
HUB_DATASET = "qiulu66/EgoPlan-Bench2"
BENCH2_FILE = "EgoPlan-Bench2.json"
DOMAINS = ("Daily life", "Work", "Hobbies", "Recreation")
# "ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2" is the id of an Ego4D video and a number.
_BENCH2_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}_[A-Za-z0-9_.-]{1,64}")

_INT64_MAX = 2**63 - 1


def frames_per_second(source: str, video_id: str) -> int:
    """Return the frame rate of the records' frame numbers for a video.

    >>> frames_per_second("EpicKitchens", "P01_13"), frames_per_second("EpicKitchens", "P01_103")
    (60, 50)
    """
    if source != EPIC_KITCHENS:
        return EGO4D_FPS
    return _NEWER_FPS if _NEWER.fullmatch(video_id) else _OLDER_FPS


class _Context(TypedDict):
    """Facts about the file that validators need.

    Attributes:
        first: Number of the first frame of the record's video.
        is_private: True if records must not have an answer, false if they must have one, None if
            answers are ignored.
    """

    first: int
    is_private: bool | None


def _context(info: ValidationInfo) -> _Context:
    assert info.context is not None  # `read_records` passes it.
    return info.context


def _is_frame(frame: Any, first: int) -> TypeGuard[int]:
    """Return True if a value is a frame number of a video that begins with frame `first`."""
    return isinstance(frame, int) and not isinstance(frame, bool) and first <= frame <= _INT64_MAX


def _frame(frame: Any, first: int, first_name: str = "") -> int:
    if not _is_frame(frame, first):
        raise expected(f"a frame number from {first_name}{first}")
    return frame


_Frame = Annotated[Any, AfterValidator(lambda frame, info: _frame(frame, _context(info)["first"]))]


class PastAction(Checked):
    """A past action from `start_frame` to `stop_frame`, both included.

    It may overlap the next one.
    """

    narration_text: Text
    start_frame: _Frame
    stop_frame: Any

    @field_validator("stop_frame")
    @classmethod
    def _check_stop(cls, frame: Any, info: ValidationInfo) -> Any:
        start = info.data.get("start_frame")
        return frame if start is None else _frame(frame, start, "its start ")


class VideoRecord(Checked):
    """The fields of every kind of record: the goal, the question and the video shown.

    Attributes:
        FILE_KIND: The kind of the file, for messages about other files.
        sample_id: Unique in its file. Subclasses set the type.
        video_source: `EPIC_KITCHENS` (frames numbered from 1) or `EGO4D` (from 0).
        current_observation_frame: The last frame that a model may see.
        past_actions: The progress, ordered by start; empty before the first step. An action may end
            after the observation.
    """

    FILE_KIND: ClassVar[FileKind | None] = None

    sample_id: Any
    task_goal: Text
    question: Text
    video_source: Annotated[
        Literal["EpicKitchens", "Ego4D"], Expected(f"{EPIC_KITCHENS!r} or {EGO4D!r}")
    ]
    video_id: Any
    current_observation_frame: _Frame
    past_actions: list[PastAction] = Field(validation_alias="task_progress_metadata")

    @field_validator("video_id")
    @classmethod
    def _check_video_id(cls, video_id: Any, info: ValidationInfo) -> Any:
        source = info.data.get("video_source")
        if source and (not isinstance(video_id, str) or not VIDEO_ID[source].fullmatch(video_id)):
            example = "P01_13" if source == EPIC_KITCHENS else "a UUID"
            raise expected(f"an identifier like {example}")
        return video_id

    @property
    def first_frame(self) -> int:
        """The first frame that a model may see; the observation if there are no past actions."""
        if self.past_actions:
            return self.past_actions[0].start_frame
        return self.current_observation_frame

    @property
    def frames(self) -> range:
        """Numbers of all frames that any task may read."""
        return range(self.first_frame, self.current_observation_frame + 1)


class Question(VideoRecord):
    """A question of either benchmark.

    Attributes:
        choice_a, choice_b, choice_c, choice_d: Four distinct choices.
        golden_choice_idx: Letter of the right choice; None if the split keeps it private.
        answer: Text of the right choice; None if the split keeps it private.
        origin: Origin of the question if it is not the benchmark's.
    """

    choice_a: Text
    choice_b: Text
    choice_c: Text
    choice_d: Text
    golden_choice_idx: Any
    answer: Any
    origin: Text | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices in the order A to D."""
        return tuple(getattr(self, field) for field in CHOICES)

    @field_validator(*CHOICES)
    @classmethod
    def _check_choice(cls, choice: str, info: ValidationInfo) -> str:
        for field in CHOICES:
            if choice.strip() == info.data.get(field, "").strip():
                raise problem(f"same as {field}: {quoted(choice)}")
        return choice

    @field_validator("golden_choice_idx", "answer")
    @classmethod
    def _check_private(cls, label: Any, info: ValidationInfo) -> Any:
        """Reject a label if answers are private: the file is of another split.

        Drop it if answers are ignored.
        """
        is_private = _context(info)["is_private"]
        if is_private and label is not None and (not isinstance(label, str) or label.strip()):
            raise expected("no value, because the answers of this split are private")
        return label if is_private is False else None

    @field_validator("golden_choice_idx")
    @classmethod
    def _check_letter(cls, letter: Any, info: ValidationInfo) -> str | None:
        if _context(info)["is_private"] is False and letter not in tuple(LETTERS):
            raise expected(f"one of {', '.join(LETTERS)}")
        return letter

    @field_validator("answer")
    @classmethod
    def _check_answer(cls, answer: Any, info: ValidationInfo) -> str | None:
        golden = info.data.get("golden_choice_idx")
        right = info.data.get(f"choice_{golden}".lower())
        if right is not None and answer != right:
            raise expected(f"choice {golden}, {quoted(right)}")
        return right


SampleId = Annotated[int, Field(ge=-_INT64_MAX, le=_INT64_MAX), Expected("an integer of 64 bits")]


class Record(Question):
    """A question of EgoPlan-Bench."""

    FILE_KIND = EGOPLAN_ANNOTATIONS

    sample_id: SampleId


def _domain(name: Any) -> str:
    """Return the standard name of a domain in any spelling: ``daily_life`` is ``Daily life``."""
    spelt = {_letters(domain): domain for domain in DOMAINS}
    if not isinstance(name, str) or _letters(name) not in spelt:
        raise expected(f"one of {', '.join(DOMAINS)}")
    return spelt[_letters(name)]


class Bench2Record(Question):
    """A question of EgoPlan-Bench2.

    Attributes:
        question: Absent in the file; made from the goal.
        video_source, video_id: Absent in the file. The sample's id starts with the id of its Ego4D
            video.
        domain: One of `DOMAINS`.
        scenario: One of 24.
        task_start_frame: The first frame that a model may see.
    """

    FILE_KIND = EGOPLAN_BENCH2_ANNOTATIONS

    sample_id: Annotated[
        str,
        Predicate(_BENCH2_ID.fullmatch),
        Expected("a video id, an underscore and a number, as a text"),
    ]
    question: Text = Field(default=None, validate_default=True)
    video_source: Annotated[Literal["Ego4D"], Expected(f"{EGO4D!r}")] = "Ego4D"
    video_id: Any = Field(default=None, validate_default=True)
    domain: Annotated[Any, AfterValidator(_domain)]
    scenario: Text
    task_start_frame: Any

    @field_validator("question", mode="before")
    @classmethod
    def _ask(cls, question: Any, info: ValidationInfo) -> Any:
        return QUESTION.format(goal=info.data.get("task_goal")) if question is None else question

    @field_validator("video_id")
    @classmethod
    def _check_video_id(cls, video_id: Any, info: ValidationInfo) -> Any:
        if video_id is None:
            return info.data.get("sample_id", "").partition("_")[0]
        if not isinstance(video_id, str) or not VIDEO_ID[EGO4D].fullmatch(video_id):
            raise expected("a UUID")
        return video_id

    @field_validator("task_start_frame")
    @classmethod
    def _check_start(cls, frame: Any, info: ValidationInfo) -> int:
        last = info.data.get("current_observation_frame")
        if not _is_frame(frame, 0) or (last is not None and frame > last):
            raise expected("a frame number from 0 to current_observation_frame")
        return frame

    @property
    def first_frame(self) -> int:
        """The first frame of the task."""
        return self.task_start_frame


def read_annotations(path: str | Path, split: Split | None) -> list[Record]:
    """Read an official annotation file of EgoPlan-Bench, and check every record.

    Args:
        path: JSON file with a list of records, or an object with such a list under one key.
        split: ``"val"``: every record must have the right choice. ``"test"``: no record may have
            one. None: the right choice is ignored.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: See `read_records`.
    """
    if split is None:
        hint = "check that this is EgoPlan's annotation file"
        return read_records(Record, Path(path), LIST_KEYS["test"], hint, is_private=None)
    other_split = (
        "val (the file with answers)" if split == "test" else "test (the file without answers)"
    )
    hint = (
        f"check that this is EgoPlan's annotation file for the {split} split, or use --split "
        f"{other_split}"
    )
    is_private = split == "test"
    return read_records(Record, Path(path), LIST_KEYS[split], hint, is_private=is_private)


def read_bench2_annotations(source: str | Path) -> list[Bench2Record]:
    """Read the annotation file of EgoPlan-Bench2, and check every record.

    Args:
        source: A JSON file, or `HUB`.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: See `read_records`. Also raised if the file cannot be downloaded.
    """
    path = _download() if str(source) == HUB else Path(source)
    hint = f"check that this is EgoPlan-Bench2's {BENCH2_FILE}, which contains the answers"
    return read_records(Bench2Record, path, "EgoPlan_Bench2", hint, is_private=False)


AnyRecord = TypeVar("AnyRecord", bound=VideoRecord)


def read_records(
    record_type: type[AnyRecord], path: Path, key: str, hint: str, *, is_private: bool | None = None
) -> list[AnyRecord]:
    """Read a file, and check every record.

    Args:
        record_type: Class of the records.
        path: JSON file with a list of records, or an object with such a list under one key.
        key: The list's key, needed if the object contains several lists.
        hint: Advice to add to an error about wrong records.
        is_private: True if records must not have an answer, false if they must have one, None to
            ignore answers.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: The file cannot be read, or records are wrong. Names the number of
            problems and the first 20, each with the record's position (from 0), sample_id, field
            and value.
    """
    raw_records = load_list(path, key)
    records: list[AnyRecord] = []
    problems: list[str] = []
    first_use: dict[str, int] = {}
    for index, raw in enumerate(raw_records):
        fields = raw if isinstance(raw, dict) else {}
        sample_id = fields.get("sample_id")
        source = fields.get("video_source")
        first = FIRST_FRAME.get(source, 0) if isinstance(source, str) else 0
        record, flaws = check_record(record_type, raw, _Context(first=first, is_private=is_private))
        flaws += _order_flaws(fields, first)
        if record is not None:
            records.append(record)
        if sample_id is not None:
            first_index = first_use.setdefault(quoted(sample_id), index)
            if first_index != index:
                flaws.append(f"sample_id: already used by record {first_index}")
        problems += [f"record {index}, sample_id {quoted(sample_id)}, {flaw}" for flaw in flaws]
    if problems:
        check_kind(path, raw_records, record_type.FILE_KIND)
    if len(problems) == 1:
        raise LmmsEgoplanError(f"{path}: {problems[0]}; {hint}")
    if problems:
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problems in {len(raw_records)} records; "
            f"{hint}\n{listing(problems)}"
        )
    return records


def _order_flaws(raw: dict[str, Any], first: int) -> Iterator[str]:
    """Yield past actions that start before an earlier one or after the observation.

    Other values are ignored.
    """
    actions = raw.get("task_progress_metadata")
    if not isinstance(actions, list):
        return
    previous = first
    last = raw.get("current_observation_frame")
    for position, action in enumerate(actions):
        start = action.get("start_frame") if isinstance(action, dict) else None
        if not _is_frame(start, first):
            continue
        field = f"task_progress_metadata[{position}].start_frame"
        if start < previous:
            yield f"{field}: {start} is before the start of the previous action, {previous}"
        if _is_frame(last, first) and start > last:
            yield f"{field}: {start} is after current_observation_frame, {last}"
        previous = start


def load_list(path: Path, key: str) -> list[Any]:
    """Read the records of an annotation file without checking them.

    Args:
        key: The list's key, needed if the file is an object with several lists.

    Raises:
        LmmsEgoplanError: The file cannot be read, or contains no list.
    """
    content = read_json(path, "annotations")
    if isinstance(content, JsonObject):
        if content.repeated:
            keys = ", ".join(quoted(key) for key in content.repeated)
            raise LmmsEgoplanError(f"{path}: {keys}: {REPEATED}")
        lists = {name: value for name, value in content.items() if isinstance(value, list)}
        content = next(iter(lists.values())) if len(lists) == 1 else lists.get(key)
    if not isinstance(content, list):
        raise LmmsEgoplanError(
            f"{path}: expected a list of records, or an object with such a list under "
            f"its only key or under {key!r}"
        )
    if not content:
        raise LmmsEgoplanError(f"{path}: the list of records is empty")
    return content


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


def _download() -> Path:
    from huggingface_hub import hf_hub_download

    try:
        with hub_files():
            return Path(hf_hub_download(HUB_DATASET, BENCH2_FILE, repo_type="dataset"))
    except Exception as error:  # The hub's client and the network raise many kinds of errors.
        raise LmmsEgoplanError(
            f"cannot download {BENCH2_FILE} of the dataset {HUB_DATASET} from the hub: {error}. "
            f"Download it from https://huggingface.co/datasets/{HUB_DATASET}, and pass the file "
            f"instead of {HUB}"
        ) from error
