"""Annotation files of EgoPlan-Bench and EgoPlan-Bench2: reading and checking every record.

At the end, people's verification of questions: the files that ``annotate export`` writes.
"""

import csv
import re
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, TypeGuard, TypeVar

from annotated_types import Predicate
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS, QUESTION
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.file_kinds import check_kind
from lmms_egoplan.jsonl import REPEATED, JsonObject, check_record, read_json, read_text
from lmms_egoplan.storage import without_bars
from lmms_egoplan.validation import Checked, Expected, Text, expected, listing, problem, shown

Split = Literal["val", "test"]
EPIC_KITCHENS, EGO4D = "EpicKitchens", "Ego4D"
VIDEO_URLS = {EPIC_KITCHENS: "https://epic-kitchens.github.io", EGO4D: "https://ego4d-data.org"}
# Number of a video's first frame: EPIC's frame files count from 1, frames of Ego4D's videos from 0.
FIRST_FRAME = {EPIC_KITCHENS: 1, EGO4D: 0}
CHOICES = [f"choice_{letter.lower()}" for letter in LETTERS]
# "P01_13": participant, video; Ego4D's are UUIDs.
VIDEO_ID = {
    EPIC_KITCHENS: re.compile(r"[A-Za-z0-9]{1,32}_[A-Za-z0-9_-]{1,64}"),
    EGO4D: re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
}
# Ids of the demo's videos begin so. Scores over them compare with no published one.
RENDERED = "rendered"

# The published files of EgoPlan-Bench are named after the list that they may hold under a key.
LIST_KEYS = EGOPLAN.files

# EgoPlan-Bench2's annotations.
HUB = "hub"
HUB_DATASET = "qiulu66/EgoPlan-Bench2"
BENCH2_FILE = "EgoPlan-Bench2.json"
DOMAINS = ("Daily life", "Work", "Hobbies", "Recreation")
# "ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2": Ego4D's video, and a number.
_BENCH2_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}_[A-Za-z0-9_.-]{1,64}")

_INT64_MAX = 2**63 - 1


class _Context(TypedDict):
    """What validators need to know of the file.

    first: number of the first frame of the record's video.
    is_private: whether answers are private; None if records may have an answer or not.
    """

    first: int
    is_private: bool | None


def _context(info: ValidationInfo) -> _Context:
    assert info.context is not None  # `read_records` passes it.
    return info.context


def _is_frame(frame: Any, first: int) -> TypeGuard[int]:
    """Check that a value is a frame number of a video whose first frame has the number `first`."""
    return isinstance(frame, int) and not isinstance(frame, bool) and first <= frame <= _INT64_MAX


def _frame(frame: Any, first: int, what: str = "") -> int:
    if not _is_frame(frame, first):
        raise expected(f"a frame number from {what}{first}")
    return frame


_Frame = Annotated[Any, AfterValidator(lambda frame, info: _frame(frame, _context(info)["first"]))]


class PastAction(Checked):
    """A past action, from `start_frame` to `stop_frame`, both included; may overlap the next one."""

    narration_text: Text
    start_frame: _Frame
    stop_frame: Any

    @field_validator("stop_frame")
    @classmethod
    def _check_stop(cls, frame: Any, info: ValidationInfo) -> Any:
        start = info.data.get("start_frame")
        return frame if start is None else _frame(frame, start, "its start ")


class Shown(Checked):
    """The fields that records of every kind have: the goal, the question and what is shown.

    sample_id: unique in its file; each kind of record has its own type.
    video_source: `EPIC_KITCHENS` (frames numbered from 1) or `EGO4D` (from 0).
    current_observation_frame: the last frame that a model may see.
    past_actions: the progress, by start; empty before the first step. One may end after the observation.
    """

    sample_id: Any
    task_goal: Text
    question: Text
    video_source: Annotated[Literal["EpicKitchens", "Ego4D"], Expected(f"{EPIC_KITCHENS!r} or {EGO4D!r}")]
    video_id: Any
    current_observation_frame: _Frame
    past_actions: list[PastAction] = Field(validation_alias="task_progress_metadata")

    @field_validator("video_id")
    @classmethod
    def _check_video_id(cls, video_id: Any, info: ValidationInfo) -> Any:
        source = info.data.get("video_source")
        if source and (not isinstance(video_id, str) or not VIDEO_ID[source].fullmatch(video_id)):
            raise expected(f"an identifier like {'P01_13' if source == EPIC_KITCHENS else 'a UUID'}")
        return video_id

    @property
    def first_frame(self) -> int:
        """The first frame that a model may see; the observation where nothing has been done."""
        return self.past_actions[0].start_frame if self.past_actions else self.current_observation_frame

    @property
    def frames(self) -> range:
        """Numbers of all frames that any task may read."""
        return range(self.first_frame, self.current_observation_frame + 1)


class Question(Shown):
    """A question of either benchmark.

    choice_a, ...: four, distinct.
    golden_choice_idx, answer: the right choice's letter and text; None where the split keeps them private.
    origin: Where the question comes from, if it is not the benchmark's.
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
        """In the order A to D."""
        return tuple(getattr(self, field) for field in CHOICES)

    @field_validator(*CHOICES)
    @classmethod
    def _check_choice(cls, choice: str, info: ValidationInfo) -> str:
        for field in CHOICES:
            if choice.strip() == info.data.get(field, "").strip():
                raise problem(f"same as {field}: {shown(choice)}")
        return choice

    @field_validator("golden_choice_idx", "answer")
    @classmethod
    def _check_private(cls, label: Any, info: ValidationInfo) -> Any:
        """Drop the label where answers are private or ignored; the file is of another split if it has private ones."""
        is_private = _context(info)["is_private"]
        if is_private and label is not None and (not isinstance(label, str) or label.strip()):
            raise expected("nothing, since the answers of the split are private")
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
            raise expected(f"choice {golden}, {shown(right)}")
        return right


SampleId = Annotated[int, Field(ge=-_INT64_MAX, le=_INT64_MAX), Expected("an integer of 64 bits")]


class Record(Question):
    """A question of EgoPlan-Bench."""

    sample_id: SampleId


def _domain(name: Any) -> str:
    """Return a domain by any spelling: ``daily_life`` is ``Daily life``."""
    spelt = {_letters(domain): domain for domain in DOMAINS}
    if not isinstance(name, str) or _letters(name) not in spelt:
        raise expected(f"one of {', '.join(DOMAINS)}")
    return spelt[_letters(name)]


class Bench2Record(Question):
    """A question of EgoPlan-Bench2.

    question, video_source, video_id: absent in the file; the question is made of the goal, and the video is the one of
        Ego4D whose id begins the sample's.
    domain: one of `DOMAINS`.
    scenario: one of 24.
    task_start_frame: the first frame that a model may see.
    """

    sample_id: Annotated[
        str, Predicate(_BENCH2_ID.fullmatch), Expected("a video id, an underscore and a number, as a text")
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
        """The task's start."""
        return self.task_start_frame


def read_annotations(path: str | Path, split: Split | None) -> list[Record]:
    """Read an official annotation file of EgoPlan-Bench and check every record of it.

    Args:
        path: JSON; a list of records, or an object that holds such a list under one key.
        split: In ``"val"``, every record must have the right choice. In ``"test"``, none may have one. None ignores it.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: see `read_records`.
    """
    other = "val, whose file has answers," if split == "test" else "test, whose file has none,"
    hint = f"use --split {other} if it is that file; is it EgoPlan's annotation file for the {split} split?"
    if split is None:
        hint = "is it EgoPlan's annotation file?"
    is_private = None if split is None else split == "test"
    return read_records(Record, Path(path), LIST_KEYS[split or "test"], hint, is_private=is_private)


def read_bench2_annotations(source: str | Path) -> list[Bench2Record]:
    """Read the annotation file of EgoPlan-Bench2 and check every record of it.

    Args:
        source: a file, JSON; or `HUB`.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: see `read_records`; or the hub does not have the file.
    """
    path = _download() if str(source) == HUB else Path(source)
    hint = f"is it EgoPlan-Bench2's {BENCH2_FILE}, whose records have their answers?"
    return read_records(Bench2Record, path, "EgoPlan_Bench2", hint, is_private=False)


AnyRecord = TypeVar("AnyRecord", bound=Shown)


def read_records(
    kind: type[AnyRecord], path: Path, key: str, hint: str, *, is_private: bool | None = None
) -> list[AnyRecord]:
    """Read a file and check every record of it.

    Args:
        path: JSON; a list of records, or an object that holds such a list under one key.
        key: that key, where the object holds several lists.
        hint: what to ask oneself where records are wrong.
        is_private: whether the answers of questions are private; None ignores answers.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: the file cannot be read, or records are wrong; names the first 20 problems, each with
            the record's position (from 0), sample_id, field and what was found, and their total.
    """
    raw_records = load_list(path, key)
    records: list[AnyRecord] = []
    problems: list[str] = []
    first_use: dict[str, int] = {}
    for index, raw in enumerate(raw_records):
        fields = raw if isinstance(raw, dict) else {}
        sample_id, source = fields.get("sample_id"), fields.get("video_source")
        first = FIRST_FRAME.get(source, 0) if isinstance(source, str) else 0
        record, flaws = check_record(kind, raw, _Context(first=first, is_private=is_private))
        flaws += _order_flaws(fields, first)
        if record is not None:
            records.append(record)
        if sample_id is not None and (other := first_use.setdefault(shown(sample_id), index)) != index:
            flaws.append(f"sample_id: already used by record {other}")
        problems += [f"record {index}, sample_id {shown(sample_id)}, {flaw}" for flaw in flaws]
    if problems:
        check_kind(path, raw_records, kind)
    if len(problems) == 1:
        raise LmmsEgoplanError(f"{path}: {problems[0]}; {hint}")
    if problems:
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problems in {len(raw_records)} records; {hint}\n{listing(problems)}"
        )
    return records


def _order_flaws(raw: dict[str, Any], first: int) -> Iterator[str]:
    """Name past actions that begin before an earlier one or after the observation; other values are ignored."""
    actions = raw.get("task_progress_metadata")
    previous, last = first, raw.get("current_observation_frame")
    for position, action in enumerate(actions if isinstance(actions, list) else []):
        start = action.get("start_frame") if isinstance(action, dict) else None
        if _is_frame(start, first):
            field = f"task_progress_metadata[{position}].start_frame"
            if start < previous:
                yield f"{field}: {start} lies before the action before it, at {previous}"
            if _is_frame(last, first) and start > last:
                yield f"{field}: {start} lies after current_observation_frame, {last}"
            previous = start


def load_list(path: Path, key: str) -> list[Any]:
    """Read the records of an annotation file as they are, unchecked.

    Args:
        key: of the list, where the file is an object that holds several.

    Raises:
        LmmsEgoplanError: the file cannot be read, or holds no list.
    """
    content = read_json(path, "annotations")
    if isinstance(content, JsonObject):
        if content.repeated:
            raise LmmsEgoplanError(f"{path}: {', '.join(map(shown, content.repeated))}: {REPEATED}")
        lists = {name: value for name, value in content.items() if isinstance(value, list)}
        content = next(iter(lists.values())) if len(lists) == 1 else lists.get(key)
    if not isinstance(content, list):
        raise LmmsEgoplanError(
            f"{path}: expected a list of records, or an object that holds one under one key or under {key!r}"
        )
    if not content:
        raise LmmsEgoplanError(f"{path}: the list of records is empty")
    return content


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


def _download() -> Path:
    from huggingface_hub import hf_hub_download

    try:
        with without_bars():
            return Path(hf_hub_download(HUB_DATASET, BENCH2_FILE, repo_type="dataset"))
    except Exception as error:  # whatever the hub's client and the network raise
        raise LmmsEgoplanError(
            f"{BENCH2_FILE} of the dataset {HUB_DATASET} cannot be had from the hub: {error}. Download it from "
            f"https://huggingface.co/datasets/{HUB_DATASET} and give the file in place of {HUB}"
        ) from error


# The files of kept and rejected questions.
KEPT, REJECTED = "EgoPlan_validation.json", "rejected.csv"
# Reasons in the second.
OPEN = "not all labels yet"
SERVED = "served for the qualification"
SKIPPED = "skipped"
DISAGREE = "annotators disagree"
OTHER = "annotators agree on another choice than the record"

Verified = dict[tuple[Hashable, ...], str]
"""By id and right letter of a question, the result of its verification: `AGREED`, or the reason for its rejection."""
AGREED = "agree with the record"


def read_checked(folders: Sequence[Path]) -> Verified:
    """Read the results for the questions that enough people have answered; the last folder counts.

    Raises:
        LmmsEgoplanError: a file cannot be read, or holds something else; names it.
    """
    checked: Verified = {}
    for folder in folders:
        try:
            if (folder / KEPT).is_file():
                records = load_list(folder / KEPT, LIST_KEYS["val"])
                checked |= {(int(record["sample_id"]), str(record["golden_choice_idx"])): AGREED for record in records}
            if (folder / REJECTED).is_file():
                for row in csv.DictReader(read_text(folder / REJECTED).splitlines()):
                    reason = row["reason"].partition(":")[0]
                    if reason not in (OPEN, SERVED):
                        checked[int(row["sample_id"]), row["record"]] = reason
        except (AttributeError, KeyError, TypeError, ValueError, csv.Error) as error:
            raise LmmsEgoplanError(
                f"{folder}: {KEPT} or {REJECTED} is not as annotate export writes it: {type(error).__name__}: {error}. "
                "Export the labels again"
            ) from error
    return checked
