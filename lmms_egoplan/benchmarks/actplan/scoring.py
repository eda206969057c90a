"""Scores of plans: LCS of two readings with the gold plans, form, goal check and the classifier's verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import Field, StrictBool, StrictFloat, StrictInt, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
from lmms_egoplan.benchmarks.actplan.bleurt import PlanClassifier, Verdict, classifier_path, load_classifier
from lmms_egoplan.benchmarks.actplan.goal_check.check import GoalCheck, check_goal
from lmms_egoplan.benchmarks.actplan.lcs import Steps, lcs_lengths, lcs_norm
from lmms_egoplan.benchmarks.actplan.reply import form_validity, official_steps, parsed_steps, plan_text
from lmms_egoplan.encoder import DEFAULT_ENCODER, encoder_name, load_encoder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText, Expected, expected

_Counts = list[Annotated[StrictInt, Field(ge=0), Expected("a number from 0")] | None]
_Share = Annotated[StrictFloat, Field(ge=0, le=1), Expected("a number from 0 to 1")]


@dataclass(frozen=True)
class GeneratedPlan:
    """A plan as a model wrote it, with the gold plans of its instance.

    id: ID of the instance.
    text: The model's answer.
    references: Lines of gold plans 1, 2, ...; empty where there is none.
    truncated: Whether the answer ends at the limit of new tokens; None if unknown.
    problem: The instance's activity in BDDL; "" if not available.
    """

    id: str
    text: str
    references: Sequence[Steps]
    truncated: bool | None = None
    problem: str = ""

    @classmethod
    def of_reply(cls, doc: Mapping[str, Any], reply: str, *, truncated: bool | None = None) -> "GeneratedPlan":
        """Make a plan of a model's reply about an instance, a row of the prepared dataset."""
        golds = (doc["gold_plan_1"], doc["gold_plan_2"])
        return cls(doc["id"], reply, golds, truncated, doc["problem"])


class Reading(NamedTuple):
    """A plan's steps and those of its gold plans, read in the same way; a gold plan without steps is empty."""

    steps: list[str]
    golds: list[Steps]


@dataclass(frozen=True)
class PlanScore(TextRecord):
    """A plan's two readings and what they score.

    id, truncated: as in `GeneratedPlan`.
    official: the plan's lines, as the authors' code takes them (`official_steps`).
    parsed: the steps found in the text (`parsed_steps`).
    reference_lengths: steps of gold plans 1, 2, ...; None where there is none.
    lcs_each: LCS of the official reading with each gold plan, in steps; None where there is none.
    lcs_parsed_each: the same of the parsed reading.
    form_validity: share of the parsed steps that are of the form ``action(object)``; None without any.
    bleurt: whether the classifier calls the plan correct; None where no classifier is set. Without a step: False.
    bleurt_probability: that of being correct; None where the classifier was not asked.
    bleurt_truncated: whether the classifier saw only a part; None where it was not asked.
    encoder: name or path of the sentence encoder.
    classifier: path of the classifier; None where none is set.
    reference_lines: lines of gold plans 1, 2, ..., blank ones among them, as the official reading counts them; None
        where that is `reference_lengths`.
    goal: what the parsed reading reaches of the activity's goal; None where its problem is not at hand.
    """

    WHAT = "a scored plan as `score_plans` leaves it"

    id: AnyText
    official: list[AnyText]
    parsed: list[AnyText]
    reference_lengths: _Counts
    lcs_each: _Counts
    lcs_parsed_each: _Counts
    form_validity: _Share | None
    truncated: StrictBool | None
    bleurt: StrictBool | None
    bleurt_probability: _Share | None
    bleurt_truncated: StrictBool | None
    encoder: AnyText
    classifier: AnyText | None
    reference_lines: _Counts | None = None
    goal: GoalCheck | None = None

    @field_validator("reference_lengths", "lcs_each", "lcs_parsed_each", "reference_lines")
    @classmethod
    def _check_number(cls, counts: list[int | None] | None, info: ValidationInfo) -> list[int | None] | None:
        if counts is not None and not 0 < len(counts) == len(info.data.get("reference_lengths", counts)):
            raise expected("a number for each gold plan")
        return counts

    def measures(self) -> dict[str, float | None]:
        """Return what is averaged over plans, by name; None where a measure is not defined.

        ``lcs`` (steps) and ``lcs_norm`` (in [0, 1]) against gold plan 1, with ``_gold_2`` against gold plan 2, with
        ``_best`` the larger of the two, with ``_parsed`` of the parsed reading against gold plan 1;
        ``form_validity`` and ``plan_length`` (steps) of the parsed reading.
        """
        official = _norms(self.lcs_each, self.official, self.reference_lines or self.reference_lengths)
        parsed = _norms(self.lcs_parsed_each, self.parsed, self.reference_lengths)
        return {
            "lcs_norm": official[0],
            "lcs": self.lcs_each[0],
            "lcs_norm_gold_2": official[1] if len(official) > 1 else None,
            "lcs_gold_2": self.lcs_each[1] if len(self.lcs_each) > 1 else None,
            "lcs_norm_best": _largest(official),
            "lcs_best": _largest(self.lcs_each),
            "lcs_norm_parsed": parsed[0],
            "lcs_parsed": self.lcs_parsed_each[0],
            "form_validity": self.form_validity,
            "plan_length": len(self.parsed),
        }

    def diagnostics(self) -> dict[str, float | None]:
        """Return the goal check of the parsed reading, in [0, 1]; None where a value is not defined.

        ``goal_conditions`` (share of the checkable conditions reached), ``goal_conditions_coverage`` (share of all
        conditions that were checked; 0 without a check), ``goal_steps_understood`` and ``goal_names_understood``
        (shares). They are no scores: see the tasks' README for how little they say of a plan.
        """
        goal = self.goal or GoalCheck((), (), (), steps=0, understood=0, names=0, named=0)
        return {
            "goal_conditions": goal.share,
            "goal_conditions_coverage": goal.coverage,
            "goal_steps_understood": goal.understood / goal.steps if goal.steps else None,
            "goal_names_understood": goal.named / goal.names if goal.names else None,
        }


def load_scorers(encoder: str = DEFAULT_ENCODER, classifier: str | None = None) -> tuple[str, str | None]:
    """Load the models that score plans, so that errors appear before the evaluated model is asked.

    Args:
        encoder: Passed to `encoder_name`.
        classifier: Passed to `classifier_path`.

    Returns:
        The encoder's name, and the classifier's folder; None without one.

    Raises:
        LmmsEgoplanError: One of the two cannot be loaded.
    """
    name, folder = encoder_name(encoder), classifier_path(classifier)
    load_encoder(name)
    if folder is not None:
        load_classifier(folder)
    return name, folder


def score_plans(
    plans: Sequence[GeneratedPlan], encoder: str | None = None, classifier: str | None = None
) -> list[PlanScore]:
    """Score plans together: every distinct step is embedded once.

    Both readings are of the text without the model's thinking; a text that ends inside a thought has no step. In the
    official reading, blank lines inside a plan count on both sides, as in the authors' code; in the parsed one
    on neither. The classifier compares a plan with gold plan 1, or with the first that exists.

    Args:
        encoder: Passed to `load_encoder`.
        classifier: Folder of a classifier (`load_classifier`); without one, no plan is called correct or wrong.

    Returns:
        The scores in the order of the plans.

    Raises:
        LmmsEgoplanError: One of the two models cannot be loaded.
    """
    # Load both models first, so that neither fails after the work.
    encoding, classifying = load_encoder(encoder), None if classifier is None else load_classifier(classifier)
    readings = [_read(plan) for plan in plans]
    pairs = [
        pair
        for official, parsed in readings
        for lines, steps in zip(official.golds, parsed.golds, strict=True)
        for pair in ((official.steps, lines), (parsed.steps, steps))
    ]
    lengths = lcs_lengths(pairs, encoding)
    official_lengths, parsed_lengths = iter(lengths[::2]), iter(lengths[1::2])
    verdicts = classify_plans([parsed for _, parsed in readings], classifying)
    scores = []
    for plan, (official, parsed), verdict in zip(plans, readings, verdicts, strict=True):
        steps, lines = ([len(gold) or None for gold in reading.golds] for reading in (parsed, official))
        scores.append(
            PlanScore(
                id=plan.id,
                official=official.steps,
                parsed=parsed.steps,
                reference_lengths=steps,
                lcs_each=_where_gold(official.golds, official_lengths),
                lcs_parsed_each=_where_gold(parsed.golds, parsed_lengths),
                form_validity=form_validity(parsed.steps) if parsed.steps else None,
                truncated=plan.truncated,
                bleurt=None if classifier is None else verdict is not None and verdict.correct,
                bleurt_probability=verdict.probability if verdict else None,
                bleurt_truncated=verdict.truncated if verdict else None,
                encoder=encoder or encoder_name(),
                classifier=classifier,
                reference_lines=None if lines == steps else lines,
                goal=_goal_check(plan.problem, parsed.steps),
            )
        )
    return scores


def classify_plans(plans: Sequence[Reading], classifier: PlanClassifier | None) -> list[Verdict | None]:
    """Return the classifier's verdicts on plans, given the first gold plan that has steps.

    Returns:
        A verdict for each plan; None for those without a step or without a gold plan, and without a classifier.
    """
    if classifier is None:
        return [None] * len(plans)
    pairs = {
        index: (" ".join(next(filter(None, plan.golds))), " ".join(plan.steps))
        for index, plan in enumerate(plans)
        if plan.steps and any(plan.golds)
    }
    verdicts = dict(zip(pairs, classifier.judge(list(pairs.values())), strict=True))
    return [verdicts.get(index) for index in range(len(plans))]


def _read(plan: GeneratedPlan) -> tuple[Reading, Reading]:
    """Read a plan officially, with all lines of its gold plans, and parsed, without their blank lines."""
    text = plan_text(plan.text)
    golds = [[line for line in lines if line.strip()] for lines in plan.references]
    lines = [lines if steps else [] for lines, steps in zip(plan.references, golds, strict=True)]
    return Reading(official_steps(text), lines), Reading(parsed_steps(text), list(golds))


def _where_gold(golds: Sequence[Steps], lengths: Iterator[int]) -> list[int | None]:
    """Take the next LCS length for each gold plan; None for one without steps."""
    return [length if gold else None for gold, length in zip(golds, lengths, strict=False)]


def _goal_check(problem: str, steps: Steps) -> GoalCheck | None:
    """Check the goal; None without a problem, or if the problem is not valid BDDL (prepared data have none such)."""
    try:
        return check_goal(parse_problem(problem, "problem"), steps) if problem else None
    except LmmsEgoplanError:
        return None


def _norms(lengths: Sequence[int | None], steps: Steps, reference_lengths: Sequence[int | None]) -> list[float | None]:
    return [
        None if length is None or reference is None else lcs_norm(length, len(steps), reference)
        for length, reference in zip(lengths, reference_lengths, strict=True)
    ]


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
