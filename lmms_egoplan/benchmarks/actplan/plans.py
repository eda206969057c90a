"""Define records of plans, and read files of plans, with or without people's labels (sec. 4.1).

`reply` reads the plan in a model's reply.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import MaxLen, Predicate
from pydantic import AfterValidator, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.actplan.instances import InstanceId, parse_id
from lmms_egoplan.benchmarks.actplan.reply import official_steps, one_per_line, plan_text
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.judging.text import without_thinking
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import (
    AnyText,
    Checked,
    Expected,
    Text,
    expected,
    is_text,
    quoted,
    read_as,
)

# People's verdicts on a plan (sec. 4.1).
VERDICTS = ("correct", "commonsense")
# Titles of the types of errors in a plan, in the order of sec. 5.6.
ERRORS = {
    "missing_actions": "Missing actions",
    "object": "Mistake of object property or function",
    "event": "Mistake of event cause or effect",
    "form": "Incorrect form",
    "extra_tools": "Hallucination of extra tools",
    "image": "Incorrect image understanding",
}
# The file of labelled plans in an export.
PLANS = "plans.jsonl"

Model = Literal["GPT-4V", "Gemini-Pro-1.5"]
"""A model's name in Table 5."""
MODELS: tuple[Model, ...] = get_args(Model)
SPLITS = ("train", "val", "test")
Steps = Sequence[str]

_Gold = Annotated[list[Text], MaxLen(1), Expected("at most one gold plan")]
_FORM = '{"id": "...", "candidate": "...", "references": ["...", ...]}'
# This field identifies the file of labelled plans.
_LABELLED = "gold_gpt"
_Label = Annotated[Any, Predicate((None, 0, 1).__contains__), Expected("true, false, 1, 0 or null")]


@dataclass(frozen=True, slots=True)
class GeneratedPlan:
    """A plan as a model wrote it, with the gold plans of its instance.

    id: ID of the instance.
    text: The model's answer.
    references: Lines of gold plans 1, 2, ...; empty for a missing plan.
    truncated: True if the answer reached the limit on new tokens; None if unknown.
    """

    id: str
    text: str
    references: Sequence[Steps]
    truncated: bool | None = None

    @classmethod
    def of_reply(
        cls, doc: Mapping[str, Any], reply: str, *, truncated: bool | None = None
    ) -> "GeneratedPlan":
        """Create a plan from a model's reply to an instance (a row of the prepared dataset)."""
        golds = (doc["gold_plan_1"], doc["gold_plan_2"])
        return cls(doc["id"], reply, golds, truncated)


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan read from a file.

    plan: The plan without the model's thinking, and its gold plans.
    labels: Human verdicts under ``correct`` and ``commonsense`` (sec. 4.1); None if not labelled.
    model: Name of the model that wrote the plan; None if the file does not name it.
    images: True if the model saw images, or if the file does not say.
    errors: Steps that annotators marked, by type of error (sec. 5.6); None if not marked.
    ends_in_thought: True if the reply ends inside a thought and therefore has no plan.
    """

    plan: GeneratedPlan
    labels: dict[str, bool | None]
    model: str | None = None
    images: bool = True
    errors: dict[str, list[int]] | None = None
    ends_in_thought: bool = False


@dataclass(frozen=True, slots=True)
class LabelledPlan:
    """A model's plan with a human verdict (sec. 4.1).

    text: The plan as published, with steps separated by blanks.
    """

    model: Model
    text: str
    correct: bool


@dataclass(frozen=True, slots=True)
class LabelledInstance:
    """An instance with its gold plans and the models' plans for it.

    gold_1: Gold plan 1; "" if it is missing. At least one of the two exists.
    gold_2: Gold plan 2; "" if it is missing.
    """

    id: InstanceId
    gold_1: str
    gold_2: str
    plans: tuple[LabelledPlan, ...]

    @property
    def golds(self) -> tuple[str, ...]:
        """The one or two existing gold plans."""
        return tuple(gold for gold in (self.gold_1, self.gold_2) if gold)


class _LabelledLine(Checked):
    path: Any
    activity: Any
    gold_gpt: _Gold
    gold_gemini: _Gold
    pos_gpt: list[Text]
    neg_gpt: list[Text]
    pos_gemini: list[Text]
    neg_gemini: list[Text]

    @field_validator("path")
    @classmethod
    def _read_path(cls, path: Any) -> InstanceId:
        instance = parse_id(path) if is_text(path) else None
        if instance is None:
            raise expected("<scene>/<activity>/<n>/sample_<k>")
        return instance

    @field_validator("activity")
    @classmethod
    def _check_activity(cls, activity: Any, info: ValidationInfo) -> Any:
        if "path" in info.data and activity != info.data["path"].activity:
            raise expected(f"{info.data['path'].activity}, as in path")
        return activity


class _StoredLine(Checked):
    id: Annotated[Text, AfterValidator(clean_text)]
    candidate: Annotated[AnyText, AfterValidator(clean_text), Expected("the plan as text")]
    references: list[Annotated[Text, AfterValidator(clean_text), Expected("a gold plan")]]
    correct: _Label = None
    commonsense: _Label = None
    model: Annotated[
        Annotated[Text, AfterValidator(clean_text)] | None, Expected("a text or nothing")
    ] = None
    images: Annotated[bool, Expected("true or false")] = True
    errors: Annotated[
        dict[str, list[int]] | None,
        Predicate(lambda errors: errors is None or errors.keys() <= ERRORS.keys()),
        Expected(f"an object with lists of steps by {', '.join(ERRORS)}"),
    ] = None


def read_plans(path: Path) -> list[StoredPlan]:
    """Read plans in the order of the file.

    Args:
        path: JSON lines, or the authors' ``finetuning_data.jsonl``.

            A JSON line has ``id`` (a text), ``candidate`` (the plan as text, may be empty) and
            ``references`` (gold plans 1, 2, ... as texts). Optional fields: ``correct`` and
            ``commonsense`` (true, false, 1, 0 or null), ``model``, ``images`` (false if the model
            saw none) and ``errors`` (annotated steps by type). A plan has one step per line. If the
            first existing gold plan has all steps on one line, as in ``finetuning_data.jsonl``, a
            plan on one line is split in the same way.

            In ``finetuning_data.jsonl``, the references are ``gold_gpt`` (gold plan 1) and
            ``gold_gemini`` (gold plan 2) for both models. The authors' code compares GPT-4V's plans
            with the first and Gemini's with the second.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another format; the error names line and
            field.
    """
    lines = read_lines(path)
    if not lines:
        raise LmmsEgoplanError(f"{path}: contains no plans; expected JSON lines {_FORM}")
    first = _load(*lines[0])
    if isinstance(first, dict) and _LABELLED in first:
        return _stored_labelled_plans(read_labelled_plans(path))
    return [_stored_plan(where, _load(where, line)) for where, line in lines]


def read_labelled_plans(path: Path) -> list[LabelledInstance]:
    """Read instances in the order of the file.

    Args:
        path: JSON lines in the format of ``finetuning_data.jsonl``: ``path`` (the instance's
            folder), ``activity``, ``gold_gpt`` and ``gold_gemini`` (lists of at most one plan: gold
            plans 1 and 2), ``pos_gpt``, ``neg_gpt``, ``pos_gemini``, ``neg_gemini`` (lists of a
            model's correct and wrong plans).

    Raises:
        LmmsEgoplanError: The file cannot be read, is empty, or has a duplicate or malformed
            instance. The error names line and field.
    """
    instances: dict[InstanceId, LabelledInstance] = {}
    for where, line in read_lines(path):
        instance = _instance(where, line)
        if instance.id in instances:
            raise LmmsEgoplanError(
                f"{where}: path: duplicate instance {instance.id}; remove one of the lines"
            )
        instances[instance.id] = instance
    if not instances:
        raise LmmsEgoplanError(
            f"{path}: contains no instances; expected JSON lines as in finetuning_data.jsonl"
        )
    return list(instances.values())


def read_activities(path: Path) -> dict[str, str]:
    """Read the split of every activity (sec. 4.2.2: 60, 20 and 20 activities).

    Args:
        path: Lines in the format of ``activities.txt``: an activity's name, a tab, its split.

    Raises:
        LmmsEgoplanError: The file cannot be read, is empty, or has a duplicate or malformed line.
    """
    activities: dict[str, str] = {}
    for where, line in read_lines(path):
        name, _, split = (part.strip() for part in line.partition("\t"))
        if not name or split not in SPLITS:
            raise LmmsEgoplanError(
                f"{where}: expected an activity, a tab and train, val or test, found {quoted(line)}"
            )
        if name in activities:
            raise LmmsEgoplanError(f"{where}: duplicate activity {name}; remove one of the lines")
        activities[name] = split
    if not activities:
        raise LmmsEgoplanError(
            f"{path}: contains no activities; expected lines as in activities.txt"
        )
    return activities


def _load(where: str, line: str) -> Any:
    """Parse a line of a file of plans."""
    return parse_record(where, line, f"expected lines {_FORM}")


def _stored_labelled_plans(instances: Sequence[LabelledInstance]) -> list[StoredPlan]:
    """Return the plans of ``finetuning_data.jsonl``, each with its gold plans and its verdict."""
    stored: list[StoredPlan] = []
    for instance in instances:
        for labelled in instance.plans:
            plan = _plan(str(instance.id), labelled.text, (instance.gold_1, instance.gold_2))
            labels = {"correct": labelled.correct, "commonsense": None}
            stored.append(StoredPlan(plan, labels, model=labelled.model))
    return stored


def _stored_plan(where: str, record: Any) -> StoredPlan:
    """Check a line of a file of plans."""
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object {_FORM}, found {quoted(record)}")
    line = read_as(_StoredLine, where, record)
    if not line.references:
        raise LmmsEgoplanError(f"{where}: references: expected at least one gold plan, found none")
    labels: dict[str, bool | None] = {}
    for name in VERDICTS:
        label = getattr(line, name)
        labels[name] = None if label is None else bool(label)
    return StoredPlan(
        plan=_plan(line.id, plan_text(line.candidate), line.references),
        labels=labels,
        model=line.model,
        images=line.images,
        errors=line.errors,
        ends_in_thought=without_thinking(line.candidate) is None,
    )


def _plan(identifier: str, candidate: str, references: Sequence[str]) -> GeneratedPlan:
    """Create a plan whose gold plans have one step per line, like the plan itself.

    The plan is split into lines only if the first existing gold plan has all steps on one line.
    """
    lines = [one_per_line(reference) for reference in references]
    first = next(index for index, reference in enumerate(references) if reference)
    is_on_one_line = lines[first].strip() != references[first].strip()
    text = one_per_line(candidate) if is_on_one_line else candidate
    return GeneratedPlan(identifier, text, [official_steps(reference) for reference in lines])


def _instance(where: str, line: str) -> LabelledInstance:
    """Check a line in the format of ``finetuning_data.jsonl``."""
    record = read_as(
        _LabelledLine,
        where,
        parse_record(where, line, "expected a line as in finetuning_data.jsonl"),
    )
    if not (record.gold_gpt or record.gold_gemini):
        raise LmmsEgoplanError(
            f"{where}: gold_gpt and gold_gemini are both empty; an instance needs a gold plan"
        )
    plans: list[LabelledPlan] = []
    for model, name in zip(MODELS, ("gpt", "gemini"), strict=True):
        for label in ("pos", "neg"):
            texts = getattr(record, f"{label}_{name}")
            plans += [LabelledPlan(model, text, correct=label == "pos") for text in texts]
    return LabelledInstance(
        id=record.path,
        gold_1="".join(record.gold_gpt),
        gold_2="".join(record.gold_gemini),
        plans=tuple(plans),
    )
