"""EgoIntent's annotations: reading and checking every record."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import AfterValidator, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.record_files import NONE_GIVEN, Raw, fields_of_keys, load
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.file_kinds import check_kind
from lmms_egoplan.jsonl import REPEATED, JsonObject, check_record
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.validation import Checked, Expected, Seconds, Text, expected, is_text, listing, shown

# The authors' release, which links the annotations.
REPOSITORY_URL = "https://github.com/YePan2/EgoIntent"
GOALSTEP_URL = "https://github.com/facebookresearch/ego4d-goalstep"
# What a record, a run or a table is of whose steps and labels are Goal-Step's, not the benchmark's.
GOALSTEP_STEPS = "Goal-Step steps"
ENVIRONMENTS = ("indoor", "outdoor")
# Describes the file to users.
FORMAT = LMMS_EVAL_TASKS / "egointent" / "FORMAT.md"

# Becomes a file name, with ".mp4" behind it.
VIDEO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,127}")
# Goal-Step's ids: a UUID, of a grouped video behind "grp-".
_GOALSTEP_VIDEO_ID = re.compile(r"(grp-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VIDEO_NAME = "a video's file name without .mp4, of letters, digits and . _ - and blanks"
UNKNOWN = "unknown"
"""Scenario and environment of prepared steps whose annotations do not name them."""

Label = Annotated[Text, AfterValidator(str.strip)]
"""A text, without the blanks around it."""


class Record(Checked):
    """One step.

    step_id: unique in its file; all that a model is told of the step.
    start_sec, end_sec: seconds of the video that may be seen, ``0 <= start_sec < end_sec``; a frame at `end_sec`,
        the truncation point (sec. 3.3), is not seen any more.
    local_intent, global_intent, next_step_plan: the references (sec. 3.2).
    scenario: the place, one of 15 in the paper (Fig. 7: Yard ... Bedroom); None for a Goal-Step step, or if unknown.
    environment: ``"indoor"`` or ``"outdoor"``; None if unknown.
    event, goal: of the whole video, where the file tells.
    unverified: nobody has looked at the labels; they come from other annotations.
    category: of the video's goal, of a Goal-Step step; None for a step of the benchmark.
    origin: Where the step comes from, if it is not the benchmark's.
    """

    step_id: Annotated[str, Predicate(str.strip), Predicate(str.isprintable), Expected("a text in one line")]
    video_id: Annotated[str, Predicate(VIDEO_ID.fullmatch), Expected(_VIDEO_NAME)]
    start_sec: Seconds
    end_sec: Seconds
    local_intent: Label
    global_intent: Label
    next_step_plan: Label
    scenario: Label | None = None
    environment: Annotated[
        str | None,
        AfterValidator(lambda text: text and text.strip().lower()),
        Predicate((None, *ENVIRONMENTS).__contains__),
        Expected(" or ".join(ENVIRONMENTS)),
    ] = None
    event: Annotated[Label | None, Expected("a text or nothing")] = None
    goal: Annotated[Label | None, Expected("a text or nothing")] = None
    unverified: bool = False
    category: Label | None = None
    origin: Label | None = None

    @field_validator("end_sec")
    @classmethod
    def _check_end(cls, end: float, info: ValidationInfo) -> float:
        start = info.data.get("start_sec", -1.0)
        if not start < end:
            raise expected(f"a time after start_sec, {start}")
        return end

    @property
    def is_goalstep(self) -> bool:
        """Whether it is made of Ego4D Goal-Step's annotations (`goalstep.build_records`)."""
        return self.category is not None


def step_prefix(video_uid: str) -> str:
    """Start the step ids of a video: the first eight characters of Goal-Step's uids, a digest of any other name."""
    if _GOALSTEP_VIDEO_ID.fullmatch(video_uid):
        return video_uid[:8]
    return hashlib.sha256(video_uid.encode()).hexdigest()[:8]


def read_annotations(path: str | Path) -> list[Record]:
    """Read an annotation file and check every record of it.

    Args:
        path: see `record_files.load`. Keys are the names of `Record`'s fields, `ALIASES` or `record_files.VARIANTS`, in
            any case, with blanks or hyphens for underscores; others are left out. Blanks around texts are dropped, and
            the environment's case does not matter.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: the file cannot be read, holds the benchmark's steps and Goal-Step's, or records are wrong;
            names the first 20 problems, each with the line or the record's number (from 1), step_id, field and what
            was found, and their total.
    """
    return check_records(path, load(path))


def check_records(path: str | Path, loaded: Sequence[Raw], given: Mapping[str, str] = NONE_GIVEN) -> list[Record]:
    """As `read_annotations`, of records that `record_files.load` has read.

    Args:
        path: names the file in messages.
        given: as for `load`.
    """
    records: list[Record] = []
    problems: list[str] = []
    first_use: dict[str, str] = {}
    for place, raw in ((raw.place, raw.value) for raw in loaded):
        if isinstance(raw, ValueError):
            problems.append(f"{place}: {raw}")
            continue
        if not isinstance(raw, JsonObject):
            problems.append(f"{place}: expected an object, found {shown(raw)}")
            continue
        values, found = _by_field(raw, given)
        step_id = values.get("step_id")
        record, more = _read(values)
        records.append(record)
        found += more
        labels = {field: values[field] for field in FIELDS if is_text(values.get(field))}
        if is_text(step_id) and (told := [field for field, label in labels.items() if _tells(step_id, label)]):
            found.append(
                f"step_id: the model is told it, and it must not tell {', '.join(told)}; found {shown(step_id)}"
            )
        if isinstance(step_id, str) and (other := first_use.setdefault(step_id, place)) != place:
            found.append(f"step_id: already used by {other}")
        problems += [f"{place}, step_id {shown(step_id)}, {problem}" for problem in found]
    if problems:
        check_kind(path, [raw.value for raw in loaded], Record)
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problem(s) in {len(loaded)} records; the form is described in {FORMAT}\n"
            f"{listing(problems)}"
        )
    if not records:
        raise LmmsEgoplanError(f"{path}: no records; the form is described in {FORMAT}")
    if len({record.is_goalstep for record in records}) > 1:
        first = {record.is_goalstep: record.step_id for record in reversed(records)}
        raise LmmsEgoplanError(
            f"{path}: holds {GOALSTEP_STEPS} (with a category, first {first[True]!r}) and steps of the benchmark (with "
            f"a scenario, first {first[False]!r}); their scores do not compare. Put each into a file of its own"
        )
    return records


def read_raw(path: str | Path) -> list[dict[str, Any]]:
    """The records of a file that `read_annotations` has accepted, with the keys that they have there."""
    return [raw.value for raw in load(path)]


def needed_videos(records: Sequence[Record]) -> dict[str, float]:
    """Seconds that the steps show of each video, overlaps once, by the video's id; sorted."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        spans.setdefault(record.video_id, []).append((record.start_sec, record.end_sec))
    seconds = {}
    for video_id, of_video in sorted(spans.items()):
        total, reached = 0.0, 0.0
        for start, end in sorted(of_video):
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        seconds[video_id] = total
    return seconds


def _by_field(raw: JsonObject, given: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Values by field name, and the problem where a key is there twice or two keys give a field different values."""
    values: dict[str, Any] = {}
    problems = [f"{shown(key)}: {REPEATED}" for key in raw.repeated]
    keys: dict[str, str] = {}
    for key, field in fields_of_keys(raw, given).items():
        value = raw[key]
        if field not in values:
            values[field], keys[field] = value, key
        elif values[field] != value and field in Record.model_fields:
            problems.append(
                f"{field}: given twice, as {shown(keys[field])} and as {shown(key)}, with different values, "
                f"{shown(values[field])} and {shown(value)}"
            )
    return values, problems


def _tells(step_id: str, label: str) -> bool:
    """Whether an id holds a label's words, two or more, in their order."""
    words = [" ".join(re.findall(r"[^\W_]+", text.lower())) for text in (step_id, label)]
    return " " in words[1] and f" {words[1]} " in f" {words[0]} "


def _read(values: dict[str, Any]) -> tuple[Record | None, list[str]]:
    if values.get("scenario") is None and values.get("category") is not None:
        return check_record(Record, values)
    # A category beside a scenario is one of the other keys, which are left out.
    return check_record(Record, values | {"category": None})
