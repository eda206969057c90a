"""Define the record of a step (secs. 3.2 and 3.3), and check every record of a file."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import AfterValidator, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egointent.annotation_files import Raw, load
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.benchmarks.file_kinds import EGOINTENT_ANNOTATIONS, check_kind
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import (
    REPEATED,
    JsonObject,
    check_record,
)
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.validation import (
    Checked,
    Expected,
    Seconds,
    Text,
    expected,
    is_text,
    listing,
    quoted,
)

GOALSTEP_URL = "https://github.com/facebookresearch/ego4d-goalstep"
# Label for records, runs and tables whose steps and labels come from Goal-Step, not from the
# benchmark.
GOALSTEP_STEPS = "Goal-Step steps"
ENVIRONMENTS = ("indoor", "outdoor")
# The description of the file format for users.
FORMAT = LMMS_EVAL_TASKS / "egointent" / "FORMAT.md"

# Used as a file name, with the suffix .mp4.
VIDEO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,127}")
# Goal-Step's ids: a UUID, with the prefix "grp-" for a grouped video.
_GOALSTEP_VIDEO_ID = re.compile(r"(grp-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VIDEO_NAME = "a video's file name without .mp4: letters, digits, blanks and . _ -"
UNKNOWN = "unknown"
"""Scenario or environment of a prepared step if its annotations lack it."""

Label = Annotated[Text, AfterValidator(str.strip)]
"""A text without surrounding blanks."""


class Record(Checked):
    """One step.

    Attributes:
        step_id: Unique in its file. The only part of the record that may be in a prompt.
        video_id: Name of the video's file, without ``.mp4``.
        start_sec: First second of the video that is shown, ``0 <= start_sec < end_sec``.
        end_sec: The truncation point (sec. 3.3). A frame at this second is no longer shown.
        local_intent: Reference for the first field (sec. 3.2).
        global_intent: Reference for the second field.
        next_step_plan: Reference for the third field.
        scenario: The place, one of 15 in the paper (Fig. 7: Yard ... Bedroom); None for a Goal-Step
            step, or if unknown.
        environment: ``"indoor"`` or ``"outdoor"``; None if unknown.
        event: Event in the whole video; None if the file lacks it.
        goal: Goal of the whole video; None if the file lacks it.
        unverified: True if nobody has verified the labels, because they come from other
            annotations.
        category: Category of the video's goal, for a Goal-Step step; None for a step of the
            benchmark.
        origin: Source of the step if it is not part of the benchmark.
    """

    step_id: Annotated[
        str, Predicate(str.strip), Predicate(str.isprintable), Expected("a text of one line")
    ]
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
        """True for a record built from Ego4D Goal-Step's annotations (`goalstep.build_records`)."""
        return self.category is not None


def step_prefix(video_uid: str) -> str:
    """Return the prefix of a video's step ids.

    It is the first eight characters of a Goal-Step id, or of the SHA-256 digest of any other name.
    """
    if _GOALSTEP_VIDEO_ID.fullmatch(video_uid):
        return video_uid[:8]
    return hashlib.sha256(video_uid.encode()).hexdigest()[:8]


def read_annotations(path: str | Path) -> list[Record]:
    """Read an annotation file and check every record.

    Args:
        path: See `load`. Keys are the names of `Record`'s fields, `ALIASES` or those of
            `OTHER_KEYS`, in any case, with blanks or hyphens for underscores. Other keys are
            ignored. Blanks around texts are dropped, and the case of the environment is ignored.

    Returns:
        The records in the order of the file.

    Raises:
        LmmsEgoplanError: The file cannot be read, mixes the benchmark's steps with Goal-Step's, or
            contains wrong records. The message has the number of problems and lists the first 20,
            each with the line or the number of the record (from 1), step_id, field and value.
    """
    return check_records(path, load(path))


def check_records(path: str | Path, loaded: Sequence[Raw]) -> list[Record]:
    """Check records that `load` has read.

    Args:
        path: Names the file in messages.
        loaded: The file's records.

    Raises:
        LmmsEgoplanError: As in `read_annotations`.
    """
    records: list[Record] = []
    problems: list[str] = []
    first_use: dict[str, str] = {}
    for raw in loaded:
        if not isinstance(raw.value, JsonObject):
            is_error = isinstance(raw.value, ValueError)
            problem = (
                str(raw.value) if is_error else f"expected an object, found {quoted(raw.value)}"
            )
            problems.append(f"{raw.location}: {problem}")
            continue
        values, flaws = _by_field(raw)
        # If a record has a scenario, its category is ignored.
        is_goalstep = values.get("scenario") is None and values.get("category") is not None
        record, value_flaws = check_record(
            Record, values if is_goalstep else values | {"category": None}
        )
        flaws += value_flaws
        step_id = values.get("step_id")
        if isinstance(step_id, str):
            flaws += _id_flaws(step_id, values, first_use.setdefault(step_id, raw.location), raw)
        problems += [f"{raw.location}, step_id {quoted(step_id)}, {flaw}" for flaw in flaws]
        if record is not None:
            records.append(record)
    if problems:
        check_kind(path, [raw.value for raw in loaded], EGOINTENT_ANNOTATIONS)
        raise LmmsEgoplanError(
            f"{path}: {len(problems)} problem(s) in {len(loaded)} records. {FORMAT} describes the "
            "format\n"
            f"{listing(problems)}"
        )
    if not records:
        raise LmmsEgoplanError(f"{path}: no records. {FORMAT} describes the format")
    first_ids = {record.is_goalstep: record.step_id for record in reversed(records)}
    if len(first_ids) > 1:
        raise LmmsEgoplanError(
            f"{path}: mixes {GOALSTEP_STEPS} (with a category, first {first_ids[True]!r}) and "
            f"steps of the benchmark (with a scenario, first {first_ids[False]!r}). Their scores "
            "are not comparable; use separate files"
        )
    return records


def _id_flaws(step_id: str, values: Mapping[str, Any], first_location: str, raw: Raw) -> list[str]:
    """List the problems of a step's id.

    Args:
        step_id: The id.
        values: Values of the record by field.
        first_location: Location of the first record with this id.
        raw: The record.
    """
    flaws: list[str] = []
    revealed_fields = _fields_in_id(step_id, values) if is_text(step_id) else []
    if revealed_fields:
        flaws.append(
            f"step_id: contains the text of {', '.join(revealed_fields)}, and the prompt "
            f"shows it to the model; rename the step. Found {quoted(step_id)}"
        )
    if first_location != raw.location:
        flaws.append(f"step_id: duplicate of {first_location}; remove or rename one")
    return flaws


def needed_videos(records: Sequence[Record]) -> dict[str, float]:
    """Return how many seconds of each video the steps show.

    Video ids are in sorted order. Overlaps count once.
    """
    seconds: dict[str, float] = {}
    shown_until: dict[str, float] = {}
    in_order = sorted(
        records, key=lambda record: (record.video_id, record.start_sec, record.end_sec)
    )
    for record in in_order:
        video = record.video_id
        start = max(record.start_sec, shown_until.get(video, 0.0))
        seconds[video] = seconds.get(video, 0.0) + max(0.0, record.end_sec - start)
        shown_until[video] = max(shown_until.get(video, 0.0), record.end_sec)
    return seconds


def _by_field(raw: Raw) -> tuple[dict[str, Any], list[str]]:
    """Return values by field name, and problems.

    Problems are duplicate keys, and keys with different values for one field.
    """
    values: dict[str, Any] = {}
    problems = [f"{quoted(key)}: {REPEATED}" for key in raw.value.repeated]
    keys: dict[str, str] = {}
    for key, field in raw.fields.items():
        value = raw.value[key]
        if field not in values:
            values[field] = value
            keys[field] = key
        elif values[field] != value and field in Record.model_fields:
            problems.append(
                f"{field}: the keys {quoted(keys[field])} and {quoted(key)} have different values, "
                f"{quoted(values[field])} and {quoted(value)}; remove one"
            )
    return values, problems


def _fields_in_id(step_id: str, values: Mapping[str, Any]) -> list[str]:
    """List the fields whose words, at least two, occur in the id in the same order."""
    words = f" {_words(step_id)} "
    texts = {field: _words(values[field]) for field in FIELDS if is_text(values.get(field))}
    return [field for field, text in texts.items() if " " in text and f" {text} " in words]


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))
