"""Records of questions which action comes next: what all tell, and reading a file of them with every flaw named."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.file_kinds import check_kind
from lmms_egoplan.jsonl import REPEATED, JsonObject, check_record, read_json
from lmms_egoplan.validation import Checked, Expected, Kind, Text, expected, listing, problem, shown

EPIC_KITCHENS = "EpicKitchens"
EGO4D = "Ego4D"
VIDEO_URLS = {EPIC_KITCHENS: "https://epic-kitchens.github.io", EGO4D: "https://ego4d-data.org"}
# Number of a video's first frame: EPIC's frame files count from 1, frames of Ego4D's videos from 0.
FIRST_FRAME = {EPIC_KITCHENS: 1, EGO4D: 0}
LETTERS = "ABCD"
# "P01_13": participant, video; Ego4D's are UUIDs.
VIDEO_ID = {
    EPIC_KITCHENS: re.compile(r"[A-Za-z0-9]{1,32}_[A-Za-z0-9_-]{1,64}"),
    EGO4D: re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
}
# Ids of the demo's videos begin so. Scores over them compare with no published one.
RENDERED = "rendered"
CHOICES = [f"choice_{letter.lower()}" for letter in LETTERS]
INT64_MAX = 2**63 - 1


def is_frame(frame: Any, first: int) -> bool:
    """Whether a value is a frame number of a video whose first frame has this one."""
    return isinstance(frame, int) and not isinstance(frame, bool) and first <= frame <= INT64_MAX


def _frame(frame: Any, first: int, what: str = "") -> int:
    if not is_frame(frame, first):
        raise expected(f"a frame number from {what}{first}")
    return frame


# The context of validation: the number of the video's first frame, and whether answers are private.
_Frame = Annotated[Any, AfterValidator(lambda frame, info: _frame(frame, info.context["first"]))]


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
    """What all records tell: the goal, the question and what is shown.

    sample_id: tells the record from all others of the file; each kind says of which type it is.
    video_source: `EPIC_KITCHENS` (frames numbered from 1) or `EGO4D` (from 0).
    current_observation_frame: the last frame that a model may see.
    past_actions: the progress, by start; empty before the first step. One may end after the observation.
    """

    sample_id: Any
    task_goal: Text
    question: Text
    video_source: Annotated[Literal[tuple(FIRST_FRAME)], Expected(f"{EPIC_KITCHENS!r} or {EGO4D!r}")]
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


def _private(label: Any, info: ValidationInfo) -> None:
    """Refuse a label where answers are private: the file is of another split."""
    if info.context["is_private"] is not None and label is not None and (not isinstance(label, str) or label.strip()):
        raise expected("nothing, since the answers of the split are private")


class Question(Shown):
    """One question, as the file has it.

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

    @field_validator("golden_choice_idx")
    @classmethod
    def _check_letter(cls, letter: Any, info: ValidationInfo) -> str | None:
        if info.context["is_private"] is not False:
            return _private(letter, info)
        if letter not in tuple(LETTERS):
            raise expected(f"one of {', '.join(LETTERS)}")
        return letter

    @field_validator("answer")
    @classmethod
    def _check_answer(cls, answer: Any, info: ValidationInfo) -> str | None:
        if info.context["is_private"] is not False:
            return _private(answer, info)
        golden = info.data.get("golden_choice_idx")
        right = info.data.get(f"choice_{golden}".lower())
        if right is not None and answer != right:
            raise expected(f"choice {golden}, {shown(right)}")
        return right


def read_records(kind: type[Kind], path: Path, key: str, hint: str, context: dict[str, Any]) -> list[Kind]:
    """Read a file and check every record of it.

    Args:
        kind: a kind of `Shown`.
        path: JSON; a list of records, or an object that holds such a list under one key.
        key: that key, where the object holds several lists.
        hint: what to ask oneself where records are wrong.
        context: for the validators of `kind`.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: the file cannot be read, or records are wrong; names the first 20 problems, each with
            the record's position (from 0), sample_id, field and what was found, and their total.
    """
    raw_records = load_list(path, key)
    records: list[Kind] = []
    problems: list[str] = []
    first_use: dict[str, int] = {}
    for index, raw in enumerate(raw_records):
        fields = raw if isinstance(raw, dict) else {}
        sample_id, source = fields.get("sample_id"), fields.get("video_source")
        first = FIRST_FRAME.get(source, 0) if isinstance(source, str) else 0
        record, flaws = check_record(kind, raw, {**context, "first": first})
        flaws += _order_flaws(fields, first)
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
    """Past actions that begin before an earlier one or after the observation; what is no frame number counts not."""
    actions = raw.get("task_progress_metadata")
    actions = actions if isinstance(actions, list) else []
    starts = [action.get("start_frame") if isinstance(action, dict) else None for action in actions]
    previous, last = first, raw.get("current_observation_frame")
    for position, start in enumerate(starts):
        if is_frame(start, first):
            place = f"task_progress_metadata[{position}].start_frame"
            if start < previous:
                yield f"{place}: {start} lies before the action before it, at {previous}"
            if is_frame(last, first) and start > last:
                yield f"{place}: {start} lies after current_observation_frame, {last}"
            previous = start


def load_list(path: Path, key: str) -> list[Any]:
    """The records of an annotation file as they stand there, unchecked.

    Args:
        key: where they may stand.

    Raises:
        LmmsEgoplanError: the file cannot be read, or holds no list.
    """
    content = read_json(path, "annotations")
    if isinstance(content, JsonObject):
        if content.repeated:
            raise LmmsEgoplanError(f"{path}: {', '.join(map(shown, content.repeated))}: {REPEATED}")
        lists = {key: value for key, value in content.items() if isinstance(value, list)}
        if len(lists) == 1:
            (content,) = lists.values()
        else:
            content = lists.get(key)
    if not isinstance(content, list):
        raise LmmsEgoplanError(
            f"{path}: expected a list of records, or an object that holds one under one key or under {key!r}"
        )
    if not content:
        raise LmmsEgoplanError(f"{path}: the list of records is empty")
    return content
