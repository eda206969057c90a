"""EgoIntent's annotations: reading and checking every record."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import AfterValidator, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.record_files import Raw, load
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.file_kinds import check_kind
from lmms_egoplan.jsonl import REPEATED, JsonObject, check_record
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.validation import Checked, Expected, Seconds, Text, expected, is_text, listing, shown

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

    step_id: Unique in its file; the only part of the record that a model is told.
    start_sec, end_sec: Seconds of the video that may be seen, ``0 <= start_sec < end_sec``; a frame at `end_sec`,
        the truncation point (sec. 3.3), is not seen any more.
    local_intent, global_intent, next_step_plan: The references (sec. 3.2).
    scenario: The place, one of 15 in the paper (Fig. 7: Yard ... Bedroom); None for a Goal-Step step, or if unknown.
    environment: ``"indoor"`` or ``"outdoor"``; None if unknown.
    event, goal: Of the whole video, if the file contains them.
    unverified: Nobody has verified the labels; they come from other annotations.
    category: Category of the video's goal, for a Goal-Step step; None for a step of the benchmark.
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
        path: See `record_files.load`. Keys are the names of `Record`'s fields, `ALIASES` or those in ``record_files.yaml``, in
            any case, with blanks or hyphens for underscores; others are ignored. Blanks around texts are dropped, and
            the environment's case does not matter.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: The file cannot be read, mixes the benchmark's steps and Goal-Step's, or records are wrong;
            names the first 20 problems, each with the line or the record's number (from 1), step_id, field and value,
            and their total.
    """
    return check_records(path, load(path))


def check_records(path: str | Path, loaded: Sequence[Raw]) -> list[Record]:
    """Check records that `record_files.load` has read; raises as `read_annotations`.

    Args:
        path: Names the file in messages.
        loaded: The file's records.
    """
    records: list[Record] = []
    problems: list[str] = []
    first_use: dict[str, str] = {}
    for raw in loaded:
        if not isinstance(raw.value, JsonObject):
            is_error = isinstance(raw.value, ValueError)
            problem = str(raw.value) if is_error else f"expected an object, found {shown(raw.value)}"
            problems.append(f"{raw.place}: {problem}")
            continue
        values, flaws = _by_field(raw)
        # Next to a scenario, a category is one of the keys that are ignored.
        is_goalstep = values.get("scenario") is None and values.get("category") is not None
        record, more = check_record(Record, values if is_goalstep else values | {"category": None})
        flaws += more
        step_id = values.get("step_id")
        if isinstance(step_id, str) and is_text(step_id) and (named := _told_by(step_id, values)):
            flaws.append(
                f"step_id: the model is told it, and it must not tell {', '.join(named)}; found {shown(step_id)}"
            )
        if isinstance(step_id, str) and (other := first_use.setdefault(step_id, raw.place)) != raw.place:
            flaws.append(f"step_id: already used by {other}")
        problems += [f"{raw.place}, step_id {shown(step_id)}, {flaw}" for flaw in flaws]
        if record is not None:
            records.append(record)
    if problems:
        check_kind(path, [raw.value for raw in loaded], Record)
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problem(s) in {len(loaded)} records; the form is described in {FORMAT}\n"
            f"{listing(problems)}"
        )
    if not records:
        raise LmmsEgoplanError(f"{path}: no records; the form is described in {FORMAT}")
    first_ids = {record.is_goalstep: record.step_id for record in reversed(records)}
    if len(first_ids) > 1:
        raise LmmsEgoplanError(
            f"{path}: holds {GOALSTEP_STEPS} (with a category, first {first_ids[True]!r}) and steps of the benchmark "
            f"(with a scenario, first {first_ids[False]!r}); their scores do not compare. Put each into a file of its "
            "own"
        )
    return records


def read_raw(path: str | Path) -> list[dict[str, Any]]:
    """Read the records of a file that `read_annotations` has accepted, with their keys in the file."""
    return [raw.value for raw in load(path)]


def needed_videos(records: Sequence[Record]) -> dict[str, float]:
    """Return the seconds that the steps show of each video by id, overlaps once; sorted."""
    seconds: dict[str, float] = {}
    reached: dict[str, float] = {}
    for record in sorted(records, key=lambda record: (record.video_id, record.start_sec, record.end_sec)):
        start = max(record.start_sec, reached.get(record.video_id, 0.0))
        seconds[record.video_id] = seconds.get(record.video_id, 0.0) + max(0.0, record.end_sec - start)
        reached[record.video_id] = max(reached.get(record.video_id, 0.0), record.end_sec)
    return seconds


def _by_field(raw: Raw) -> tuple[dict[str, Any], list[str]]:
    """Return values by field name, and problems: duplicate keys, and keys that give a field different values."""
    values: dict[str, Any] = {}
    problems = [f"{shown(key)}: {REPEATED}" for key in raw.value.repeated]
    keys: dict[str, str] = {}
    for key, field in raw.fields.items():
        value = raw.value[key]
        if field not in values:
            values[field], keys[field] = value, key
        elif values[field] != value and field in Record.model_fields:
            problems.append(
                f"{field}: given twice, as {shown(keys[field])} and as {shown(key)}, with different values, "
                f"{shown(values[field])} and {shown(value)}"
            )
    return values, problems


def _told_by(step_id: str, values: Mapping[str, Any]) -> list[str]:
    """List the fields whose words, two or more, an id contains in their order."""
    words = f" {_words(step_id)} "
    texts = {field: _words(values[field]) for field in FIELDS if is_text(values.get(field))}
    return [field for field, text in texts.items() if " " in text and f" {text} " in words]


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))
