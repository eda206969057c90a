"""Published plans with human correctness labels, the activities' splits, and the kinds of labels that people give."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import MaxLen
from pydantic import ValidationInfo, field_validator

from lmms_egoplan.benchmarks.actplan.activities import InstanceId, parse_id
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.validation import Checked, Expected, Text, expected, is_text, read_as, shown

# Labels: verdicts (sec. 4.1) and types of errors (sec. 5.6, in its order).
VERDICTS = ("correct", "commonsense")
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
"""A model as Table 5 names it."""
MODELS: tuple[Model, ...] = get_args(Model)
SPLITS = ("train", "val", "test")

_Gold = Annotated[list[Text], MaxLen(1), Expected("at most one gold plan")]


class _Line(Checked):
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


@dataclass(frozen=True)
class LabelledPlan:
    """A model's plan that people have judged (sec. 4.1).

    text: As published, the steps separated by blanks.
    """

    model: Model
    text: str
    correct: bool


@dataclass(frozen=True)
class LabelledInstance:
    """An instance's gold plans, at least one of which exists, and the models' plans for it."""

    id: InstanceId
    gold_1: str | None
    gold_2: str | None
    plans: tuple[LabelledPlan, ...]

    @property
    def golds(self) -> list[str]:
        """The existing gold plans."""
        return [gold for gold in (self.gold_1, self.gold_2) if gold is not None]


def read_labelled_plans(path: Path) -> list[LabelledInstance]:
    """Read instances in the order of the file.

    Args:
        path: JSON lines as ``finetuning_data.jsonl``: ``path`` (the instance's folder), ``activity``, ``gold_gpt`` and
            ``gold_gemini`` (lists of at most one plan: gold plans 1 and 2), ``pos_gpt``, ``neg_gpt``, ``pos_gemini``,
            ``neg_gemini`` (lists of a model's correct and wrong plans).

    Raises:
        LmmsEgoplanError: The file cannot be read, has no instances, a duplicate, or one of another form; names line
            and field.
    """
    instances: dict[InstanceId, LabelledInstance] = {}
    for where, line in read_lines(path):
        instance = _instance(where, line)
        if instance.id in instances:
            raise LmmsEgoplanError(f"{where}: path: instance {instance.id} is there twice; remove one of the lines")
        instances[instance.id] = instance
    if not instances:
        raise LmmsEgoplanError(f"{path}: no instances in it; expected JSON lines as in finetuning_data.jsonl")
    return list(instances.values())


def read_activities(path: Path) -> dict[str, str]:
    """Read the split of every activity (sec. 4.2.2: 60, 20 and 20 activities).

    Args:
        path: Lines as in ``activities.txt``: an activity's name, a tab, its split.

    Raises:
        LmmsEgoplanError: The file cannot be read, has no activities, a duplicate, or a line of another form.
    """
    activities: dict[str, str] = {}
    for where, line in read_lines(path):
        name, _, split = (part.strip() for part in line.partition("\t"))
        if not name or split not in SPLITS:
            raise LmmsEgoplanError(f"{where}: expected an activity, a tab and train, val or test, found {shown(line)}")
        if name in activities:
            raise LmmsEgoplanError(f"{where}: activity {name} is there twice; remove one of the lines")
        activities[name] = split
    if not activities:
        raise LmmsEgoplanError(f"{path}: no activities in it; expected lines as in activities.txt")
    return activities


def _instance(where: str, line: str) -> LabelledInstance:
    record = read_as(_Line, where, parse_record(where, line, "expected a line as in finetuning_data.jsonl"))
    if not (record.gold_gpt or record.gold_gemini):
        raise LmmsEgoplanError(f"{where}: gold_gpt and gold_gemini: both empty; an instance needs a gold plan")
    gpt, gemini = MODELS
    plans = (
        *(LabelledPlan(gpt, text, correct=True) for text in record.pos_gpt),
        *(LabelledPlan(gpt, text, correct=False) for text in record.neg_gpt),
        *(LabelledPlan(gemini, text, correct=True) for text in record.pos_gemini),
        *(LabelledPlan(gemini, text, correct=False) for text in record.neg_gemini),
    )
    return LabelledInstance(record.path, next(iter(record.gold_gpt), None), next(iter(record.gold_gemini), None), plans)
