"""Stored plans, made with any framework, and their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import AfterValidator

from lmms_egoplan.benchmarks.actplan.activities import activity_type, parse_id
from lmms_egoplan.benchmarks.actplan.bleurt import classifier_path
from lmms_egoplan.benchmarks.actplan.labelled_plans import ERRORS, VERDICTS, read_labelled_plans
from lmms_egoplan.benchmarks.actplan.metrics import BREAKDOWNS, by_group, length_bin
from lmms_egoplan.benchmarks.actplan.reply import official_steps, one_per_line, plan_text
from lmms_egoplan.benchmarks.actplan.scoring import GeneratedPlan, PlanScore, score_plans
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.judging.reply import without_thinking
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import AnyText, Checked, Expected, Text, read_as, shown

_FORM = '{"id": "...", "candidate": "...", "references": ["...", ...]}'
# A field that only the file of labelled plans has.
_LABELLED = "gold_gpt"


@dataclass(frozen=True)
class StoredPlan:
    """A plan as a file has it.

    plan: With its gold plans, and without the model's thinking.
    labels: What people said of it, under ``correct`` and ``commonsense`` (sec. 4.1); None where they did not.
    model: Name of the model that wrote it; None if the file has none.
    images: Whether the model was shown images; true if the file does not say.
    errors: The steps that people marked, by type of error (sec. 5.6); None if they marked none.
    ends_in_thought: Whether the reply ends inside a thought, so that it has no plan.
    """

    plan: GeneratedPlan
    labels: dict[str, bool | None]
    model: str | None = None
    images: bool = True
    errors: dict[str, list[int]] | None = None
    ends_in_thought: bool = False


_Label = Annotated[Any, Predicate((None, 0, 1).__contains__), Expected("true, false, 1, 0 or null")]


class _Line(Checked):
    id: Annotated[Text, AfterValidator(clean_text)]
    candidate: Annotated[AnyText, AfterValidator(clean_text), Expected("the plan as text")]
    references: list[Annotated[Text, AfterValidator(clean_text), Expected("a gold plan")]]
    correct: _Label = None
    commonsense: _Label = None
    model: Annotated[Annotated[Text, AfterValidator(clean_text)] | None, Expected("a text or nothing")] = None
    images: Annotated[bool, Expected("true or false")] = True
    errors: Annotated[
        dict[str, list[int]] | None,
        Predicate(lambda errors: errors is None or errors.keys() <= ERRORS.keys()),
        Expected(f"an object with lists of steps by {', '.join(ERRORS)}"),
    ] = None


def read_plans(path: Path) -> list[StoredPlan]:
    """Read plans in the order of the file.

    Args:
        path: JSON lines with ``id`` (a text), ``candidate`` (the plan as text, may be empty), ``references`` (gold
            plans 1, 2, ... as texts) and, optional, ``correct`` and ``commonsense`` (true, false, 1, 0 or null),
            ``model``, ``images`` (false if the model had none) and ``errors`` (steps by type, as people marked
            them). A plan has one step per line. If gold plan 1 has all steps on one line, as in
            ``finetuning_data.jsonl``, a plan on one line is split like it. The path may also be that file: GPT-4V's
            plans get gold plan 1 and Gemini's gold plan 2 (as in the authors' code; the paper does not say), or the
            other one if that is missing.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another form; names line and field.
    """
    lines = read_lines(path)
    if not lines:
        raise LmmsEgoplanError(f"{path}: no plans in it; expected JSON lines {_FORM}")
    if isinstance(first := _load(*lines[0]), dict) and _LABELLED in first:
        return [
            StoredPlan(
                _plan(str(instance.id), plan.text, [instance.golds[0 if plan.model == "GPT-4V" else -1]]),
                {"correct": plan.correct, "commonsense": None},
                plan.model,
            )
            for instance in read_labelled_plans(path)
            for plan in instance.plans
        ]
    return [_stored_plan(where, _load(where, line)) for where, line in lines]


def score_stored(stored: Sequence[StoredPlan]) -> dict[str, Any]:
    """Score plans with the encoder and the classifier that are set.

    Returns:
        ``samples``: for each plan `PlanScore.measures`, the fields of `PlanScore`, ``lengths`` (steps of the official
        reading of ``candidate`` and of ``references``), setting, activity type, labels and model where known.
        ``summary``: ``plans``, the means of all measures and labels with the number of labelled plans under
        ``labelled``, ``repeated_ids`` (plans whose id an earlier plan has), ``empty``, ``ends_in_thought`` (of the
        empty ones), ``unparsed``, ``encoder``, ``classifier``, and the same means by setting, length of the first
        reference, activity type and model. Undefined values are None.

    Raises:
        LmmsEgoplanError: One of the two models cannot be loaded.
    """
    scores = score_plans([entry.plan for entry in stored], classifier=classifier_path())
    samples = [_sample(entry, score) for entry, score in zip(stored, scores, strict=True)]
    # The field of a sample, by the name of its mean.
    names = (*scores[0].measures(), "bleurt_correct", *VERDICTS)
    fields = {name: "bleurt" if name == "bleurt_correct" else name for name in names}
    summary = {
        **_summary(samples, fields),
        "repeated_ids": len(stored) - len({(entry.plan.id, entry.model) for entry in stored}),
        "empty": sum(not score.official for score in scores),
        "ends_in_thought": sum(entry.ends_in_thought for entry in stored),
        "unparsed": sum(not score.parsed for score in scores),
        "encoder": scores[0].encoder,
        "classifier": scores[0].classifier,
    }
    for name in (*BREAKDOWNS, "model"):
        if groups := by_group([sample for sample in samples if name in sample], name):
            summary[f"by_{name}"] = {group: _summary(members, fields) for group, members in groups.items()}
    return {"samples": samples, "summary": summary}


def _load(where: str, line: str) -> Any:
    return parse_record(where, line, f"expected lines {_FORM}")


def _stored_plan(where: str, record: Any) -> StoredPlan:
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object {_FORM}, found {shown(record)}")
    line = read_as(_Line, where, record)
    if not line.references:
        raise LmmsEgoplanError(f"{where}: references: expected at least one gold plan, found none")
    labels = {name: label if (label := getattr(line, name)) is None else bool(label) for name in VERDICTS}
    plan = _plan(line.id, plan_text(line.candidate), line.references)
    ends_in_thought = without_thinking(line.candidate) is None
    return StoredPlan(plan, labels, line.model, line.images, line.errors, ends_in_thought)


def _plan(identifier: str, candidate: str, references: Sequence[str]) -> GeneratedPlan:
    lines = [one_per_line(reference) for reference in references]
    is_on_one_line = lines[0].strip() != references[0].strip()
    text = one_per_line(candidate) if is_on_one_line else candidate
    return GeneratedPlan(identifier, text, [official_steps(reference) for reference in lines])


def _sample(stored: StoredPlan, score: PlanScore) -> dict[str, Any]:
    instance = parse_id(stored.plan.id)
    fields = asdict(score)
    lines, steps = fields.pop("reference_lines"), fields.pop("reference_lengths")
    return {
        "id": score.id,
        **({"model": stored.model} if stored.model is not None else {}),
        **score.measures(),
        "lengths": {"candidate": len(score.official), "references": lines or steps},
        **fields,
        **({"setting": instance.setting, "activity_type": activity_type(instance.activity)} if instance else {}),
        "length": length_bin(score.reference_lengths[0]),
        **{name: label for name, label in stored.labels.items() if label is not None},
    }


def _summary(samples: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> dict[str, Any]:
    """Count plans and labels, and average each measure over the plans for which it is defined."""
    values = {
        name: [float(value) for sample in samples if (value := sample.get(field)) is not None]
        for name, field in fields.items()
    }
    means = {name: fmean(known) if known else None for name, known in values.items()}
    return {"plans": len(samples), **means, "labelled": {name: len(values[name]) for name in VERDICTS}}
