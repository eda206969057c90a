"""EgoPlan's annotation files: reading and checking every record."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import REPEATED, JsonObject, read_json, repeated_keys
from lmms_egoplan.validation import is_text, listing, shown

Split = Literal["val", "test"]

EPIC_KITCHENS = "EpicKitchens"
EGO4D = "Ego4D"
# Number of a video's first frame: EPIC's frame files count from 1, frames of Ego4D's videos from 0.
FIRST_FRAME = {EPIC_KITCHENS: 1, EGO4D: 0}
# The accuracy over a source's questions. Table 3: EgoPlan-IT was made of Epic-Kitchens, so Ego4D is out of domain.
SOURCE_METRIC = {EPIC_KITCHENS: "acc_epic_kitchens", EGO4D: "acc_ego4d"}
LETTERS = "ABCD"
ANNOTATIONS_URL = "https://github.com/ChenYi99/EgoPlan"
VIDEO_URLS = {EPIC_KITCHENS: "https://epic-kitchens.github.io", EGO4D: "https://ego4d-data.org"}

# The published files are named after the list that they may hold under a key.
_LIST_KEYS: dict[str, str] = {"val": "EgoPlan_validation", "test": "EgoPlan_test"}
# "P01_13": participant, video; Ego4D's are UUIDs.
VIDEO_ID = {
    EPIC_KITCHENS: re.compile(r"[A-Za-z0-9]{1,32}_[A-Za-z0-9_-]{1,64}"),
    EGO4D: re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
}
_LISTED = 20
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class PastAction:
    """A past action, from `start_frame` to `stop_frame`, both included; may overlap the next one."""

    narration_text: str
    start_frame: int
    stop_frame: int


@dataclass(frozen=True)
class Record:
    """One question.

    video_source: `EPIC_KITCHENS` (frames numbered from 1) or `EGO4D` (from 0).
    choices: four, distinct, in the order A to D.
    golden_choice_idx, answer: the right choice's letter and text; None in the test split, which keeps them
        private.
    current_observation_frame: the last frame that a model may see.
    past_actions: the progress, by start; empty before the first step. One may end after the observation.
    """

    sample_id: int
    video_source: str
    video_id: str
    task_goal: str
    question: str
    choices: tuple[str, str, str, str]
    golden_choice_idx: str | None
    answer: str | None
    current_observation_frame: int
    past_actions: tuple[PastAction, ...]


# (field, what is wrong with it)
_Problem = tuple[str, str]


def read_annotations(path: str | Path, split: Split) -> list[Record]:
    """Read an official annotation file and check every record of it.

    Args:
        path: JSON; a list of records, or an object that holds such a list under one key.
        split: in ``"val"`` every record must tell the right choice; in ``"test"`` what it tells is left out.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: the file cannot be read, or records are wrong; names the first 20 problems, each with
            the record's position (from 0), sample_id, field and what was found, and their total.
    """
    path = Path(path)
    raw_records = _load_list(path, split)
    problems: list[str] = []
    first_use: dict[int, int] = {}
    for index, raw in enumerate(raw_records):
        sample_id = raw.get("sample_id") if isinstance(raw, dict) else None
        flaws = list(_problems(raw, split))
        if _is_int(sample_id) and first_use.setdefault(sample_id, index) != index:
            flaws.append(("sample_id", f"already used by record {first_use[sample_id]}"))
        problems += [f"record {index}, sample_id {shown(sample_id)}, {field}: {text}" for field, text in flaws]
    if problems:
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problems in {len(raw_records)} records; is it EgoPlan's annotation "
            f"file for the {split} split?\n{listing(problems, _LISTED)}"
        )
    return [_record(raw, split) for raw in raw_records]


def _load_list(path: Path, split: Split) -> list[Any]:
    content = read_json(path, "annotations")
    if isinstance(content, JsonObject):
        if content.repeated:
            raise LmmsEgoplanError(f"{path}: {', '.join(map(shown, content.repeated))}: {REPEATED}")
        lists = {key: value for key, value in content.items() if isinstance(value, list)}
        if len(lists) == 1:
            (content,) = lists.values()
        else:
            content = lists.get(_LIST_KEYS[split])
    if not isinstance(content, list):
        raise LmmsEgoplanError(
            f"{path}: expected a list of records, or an object that holds one under one key or under "
            f"{_LIST_KEYS[split]!r}"
        )
    if not content:
        raise LmmsEgoplanError(f"{path}: the list of records is empty")
    return content


def _problems(raw: Any, split: Split) -> Iterator[_Problem]:
    if not isinstance(raw, dict):
        yield "record", f"expected an object, found {shown(raw)}"
        return
    for key in repeated_keys(raw):
        yield key, REPEATED
    sample_id = raw.get("sample_id")
    if not _is_int(sample_id) or not -_INT64_MAX <= sample_id <= _INT64_MAX:
        yield "sample_id", f"expected an integer of 64 bits, found {shown(sample_id)}"
    for field in ("task_goal", "question"):
        yield from _text_problems(field, raw.get(field))
    yield from _choice_problems(raw, split)
    source, video_id = raw.get("video_source"), raw.get("video_id")
    if not isinstance(source, str) or source not in FIRST_FRAME:
        yield "video_source", f"expected {EPIC_KITCHENS!r} or {EGO4D!r}, found {shown(source)}"
        return
    if not isinstance(video_id, str) or not VIDEO_ID[source].fullmatch(video_id):
        example = "P01_13" if source == EPIC_KITCHENS else "a UUID"
        yield "video_id", f"expected an identifier like {example}, found {shown(video_id)}"
    yield from _frame_problems(raw, FIRST_FRAME[source])


def _choice_problems(raw: dict[str, Any], split: Split) -> Iterator[_Problem]:
    choices = {letter: raw.get(f"choice_{letter.lower()}") for letter in LETTERS}
    seen: dict[str, str] = {}
    for letter, choice in choices.items():
        field = f"choice_{letter.lower()}"
        yield from _text_problems(field, choice)
        if isinstance(choice, str) and (other := seen.setdefault(choice.strip(), letter)) != letter:
            yield field, f"same as choice_{other.lower()}: {shown(choice)}"
    if split == "test":
        return
    golden, answer = raw.get("golden_choice_idx"), raw.get("answer")
    if not isinstance(golden, str) or golden not in choices:
        yield "golden_choice_idx", f"expected one of A, B, C, D, found {shown(golden)}"
    elif answer != choices[golden]:
        yield "answer", f"expected choice {golden}, {shown(choices[golden])}, found {shown(answer)}"


def _frame_problems(raw: dict[str, Any], first: int) -> Iterator[_Problem]:
    observation = raw.get("current_observation_frame")
    if not _is_frame(observation, first):
        yield "current_observation_frame", f"expected a frame number from {first}, found {shown(observation)}"
        observation = None
    actions = raw.get("task_progress_metadata")
    if not isinstance(actions, list):
        yield "task_progress_metadata", f"expected a list, found {shown(actions)}"
        return
    previous = first
    for position, action in enumerate(actions):
        field = f"task_progress_metadata[{position}]"
        if not isinstance(action, dict):
            yield field, f"expected an object, found {shown(action)}"
            continue
        yield from _text_problems(f"{field}.narration_text", action.get("narration_text"))
        start, stop = action.get("start_frame"), action.get("stop_frame")
        if not _is_frame(start, first):
            yield f"{field}.start_frame", f"expected a frame number from {first}, found {shown(start)}"
            continue
        if not _is_frame(stop, start):
            yield (
                f"{field}.stop_frame",
                f"expected a frame number from its start {start}, found {shown(stop)}",
            )
        if start < previous:
            yield f"{field}.start_frame", f"{start} lies before the action before it, at {previous}"
        if observation is not None and start > observation:
            yield f"{field}.start_frame", f"{start} lies after current_observation_frame, {observation}"
        previous = start


def _text_problems(field: str, value: Any) -> Iterator[_Problem]:
    if not is_text(value):
        yield field, f"expected a text, found {shown(value)}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_frame(value: Any, first: int) -> bool:
    return _is_int(value) and first <= value <= _INT64_MAX


def _record(raw: dict[str, Any], split: Split) -> Record:
    return Record(
        sample_id=raw["sample_id"],
        video_source=raw["video_source"],
        video_id=raw["video_id"],
        task_goal=raw["task_goal"],
        question=raw["question"],
        choices=tuple(raw[f"choice_{letter.lower()}"] for letter in LETTERS),
        golden_choice_idx=raw["golden_choice_idx"] if split == "val" else None,
        answer=raw["answer"] if split == "val" else None,
        current_observation_frame=raw["current_observation_frame"],
        past_actions=tuple(
            PastAction(action["narration_text"], action["start_frame"], action["stop_frame"])
            for action in raw["task_progress_metadata"]
        ),
    )
