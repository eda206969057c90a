"""Score a plan: read it, and measure its steps with the LCS and the classifier (sec. 4.2).

The form of the steps (sec. 5.6) is measured, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StrictBool, StrictFloat, StrictInt, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.actplan.classifier import (
    PlanClassifier,
    Verdict,
    classifier_path,
    load_classifier,
)
from lmms_egoplan.benchmarks.actplan.lcs import lcs_alignments, lcs_norm
from lmms_egoplan.benchmarks.actplan.plans import GeneratedPlan, Steps
from lmms_egoplan.benchmarks.actplan.reply import official_steps, parsed_steps, plan_text
from lmms_egoplan.benchmarks.actplan.reply.calls import form_validity
from lmms_egoplan.encoder import DEFAULT_ENCODER, encoder_name, load_encoder
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText, Expected, expected

_Counts = list[Annotated[StrictInt, Field(ge=0), Expected("a number from 0")] | None]
_Position = Annotated[StrictInt, Field(ge=0), Expected("a position from 0")]
_Pair = Annotated[
    list[_Position], Field(min_length=2, max_length=2), Expected("positions of two steps")
]
_Share = Annotated[StrictFloat, Field(ge=0, le=1), Expected("a number from 0 to 1")]


@dataclass(frozen=True, slots=True)
class Reading:
    """Steps of a plan and of its gold plans, read in the same way; a missing gold plan is empty."""

    steps: list[str]
    golds: list[Steps]


@dataclass(frozen=True)
class PlanScore(TextRecord):
    """Both readings of a plan, and their scores.

    id: ID of the instance.
    truncated: As in `GeneratedPlan`.
    official: The plan's lines, split as in the authors' code (`official_steps`).
    parsed: The steps in the text (`parsed_steps`).
    reference_lengths: Numbers of steps of gold plans 1, 2, ...; None for a missing plan.
    lcs_each: LCS of the official reading with each gold plan, in steps; None for a missing plan.
    lcs_parsed_each: The same for the parsed reading.
    form_validity: Share of the parsed steps of the form ``action(object)``; None without steps.
    bleurt: True if the classifier calls the plan correct; False without steps; None without a
    classifier.
    bleurt_probability: Probability that the plan is correct; None if the classifier was not asked.
    bleurt_truncated: True if the classifier saw only part of the plans; None if it was not asked.
    encoder: Name or path of the sentence encoder.
    classifier: Path of the classifier; None without one.
    reference_lines: Numbers of lines of gold plans 1, 2, ... in the official reading, including
        blank lines; None if equal to `reference_lengths`.
    classifier_name: The encoder that was finetuned to the classifier, with its size; None without a
    classifier.
    """

    WHAT = "a scored plan in the format of `score_plans`"

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
    classifier_name: AnyText | None = None
    alignments: list[list[_Pair] | None] | None = None

    @field_validator("reference_lengths", "lcs_each", "lcs_parsed_each", "reference_lines")
    @classmethod
    def _check_number(
        cls, counts: list[int | None] | None, info: ValidationInfo
    ) -> list[int | None] | None:
        if counts is None:
            return None
        num_gold_plans = len(info.data.get("reference_lengths", counts))
        if not counts or len(counts) != num_gold_plans:
            raise expected("a number for each gold plan")
        return counts

    @field_validator("alignments")
    @classmethod
    def _check_alignments(
        cls, alignments: list[list[list[int]] | None] | None, info: ValidationInfo
    ) -> list[list[list[int]] | None] | None:
        if alignments is None:
            return None
        lengths = [None if pairs is None else len(pairs) for pairs in alignments]
        if lengths != info.data.get("lcs_each", lengths):
            raise expected("as many pairs for each gold plan as its LCS has steps")
        return alignments

    def measures(self) -> dict[str, float | None]:
        """Return the measures that are averaged over plans, by name.

        A measure is None where it is undefined. ``lcs`` is in steps, ``lcs_norm`` in [0, 1]; both
        compare the official reading with gold plan 1. The suffix ``_gold_2`` means gold plan 2,
        ``_best`` the larger of the two, and ``_parsed`` the parsed reading against gold plan 1.
        ``form_validity`` and ``plan_length`` (steps) are of the parsed reading.
        """
        lines = self.reference_lines or self.reference_lengths
        norms = _norms(self.lcs_each, self.official, lines)
        parsed_norms = _norms(self.lcs_parsed_each, self.parsed, self.reference_lengths)
        has_gold_2 = len(self.lcs_each) > 1
        return {
            "lcs_norm": norms[0],
            "lcs": self.lcs_each[0],
            "lcs_norm_gold_2": norms[1] if has_gold_2 else None,
            "lcs_gold_2": self.lcs_each[1] if has_gold_2 else None,
            "lcs_norm_best": max((norm for norm in norms if norm is not None), default=None),
            "lcs_best": max((lcs for lcs in self.lcs_each if lcs is not None), default=None),
            "lcs_norm_parsed": parsed_norms[0],
            "lcs_parsed": self.lcs_parsed_each[0],
            "form_validity": self.form_validity,
            "plan_length": len(self.parsed),
        }


def load_scorers(
    encoder: str = DEFAULT_ENCODER, classifier: str | None = None
) -> tuple[str, str | None]:
    """Load the models that score plans, to report errors before the evaluated model runs.

    Args:
        encoder: Passed to `encoder_name`.
        classifier: Passed to `classifier_path`.

    Returns:
        The encoder's name, and the classifier's folder or None.

    Raises:
        LmmsEgoplanError: One of the two cannot be loaded.
    """
    name = encoder_name(encoder)
    load_encoder(name)
    folder = classifier_path(classifier)
    if folder is not None:
        load_classifier(folder)
    return name, folder


def score_plans(
    plans: Sequence[GeneratedPlan], encoder: str | None = None, classifier: str | None = None
) -> list[PlanScore]:
    """Score plans together, embedding every distinct step once.

    Both readings use the text without the model's thinking; a text that ends inside a thought has
    no step. In the official reading, blank lines inside either plan count as steps, as in the
    authors' code; in the parsed reading they do not. The classifier compares a plan with gold plan
    1, or with the first existing gold plan.

    Args:
        plans: The plans with their gold plans.
        encoder: Passed to `load_encoder`.
        classifier: Folder of a classifier (`load_classifier`); without one, plans get no verdict.

    Returns:
        The scores in the order of the plans.

    Raises:
        LmmsEgoplanError: One of the two models cannot be loaded.
    """
    # Load both models first, so that errors appear before the work begins.
    sentence_encoder = load_encoder(encoder)
    plan_classifier = None if classifier is None else load_classifier(classifier)
    readings = [_read(plan) for plan in plans]
    # Each gold plan in the official and in the parsed reading.
    pairs: list[tuple[Steps, Steps]] = []
    for official, parsed in readings:
        for lines, steps in zip(official.golds, parsed.golds, strict=True):
            pairs.append((official.steps, lines))
            pairs.append((parsed.steps, steps))
    all_alignments = iter(lcs_alignments(pairs, sentence_encoder))
    verdicts = classify_plans([parsed for _, parsed in readings], plan_classifier)
    scores: list[PlanScore] = []
    for plan, (official, parsed), verdict in zip(plans, readings, verdicts, strict=True):
        lcs_each: list[int | None] = []
        lcs_parsed_each: list[int | None] = []
        alignments: list[list[list[int]] | None] = []
        for gold in parsed.golds:
            alignment = next(all_alignments)
            parsed_alignment = next(all_alignments)
            lcs_each.append(len(alignment) if gold else None)
            lcs_parsed_each.append(len(parsed_alignment) if gold else None)
            alignments.append([list(pair) for pair in alignment] if gold else None)
        reference_lengths = [len(gold) or None for gold in parsed.golds]
        reference_lines = [len(gold) or None for gold in official.golds]
        is_correct = None
        if classifier is not None:
            is_correct = verdict is not None and verdict.correct
        scores.append(
            PlanScore(
                id=plan.id,
                official=official.steps,
                parsed=parsed.steps,
                reference_lengths=reference_lengths,
                lcs_each=lcs_each,
                lcs_parsed_each=lcs_parsed_each,
                form_validity=form_validity(parsed.steps) if parsed.steps else None,
                truncated=plan.truncated,
                bleurt=is_correct,
                bleurt_probability=verdict.probability if verdict else None,
                bleurt_truncated=verdict.truncated if verdict else None,
                encoder=encoder or encoder_name(),
                classifier=classifier,
                reference_lines=None if reference_lines == reference_lengths else reference_lines,
                classifier_name=None if plan_classifier is None else plan_classifier.name,
                alignments=alignments,
            )
        )
    return scores


def classify_plans(
    plans: Sequence[Reading], classifier: PlanClassifier | None
) -> list[Verdict | None]:
    """Classify each plan, given its first gold plan that has steps.

    Returns:
        A verdict for each plan; None for a plan without steps or without a gold plan, or if there
        is no classifier.
    """
    if classifier is None:
        return [None] * len(plans)
    pairs: dict[int, tuple[str, str]] = {}
    for index, plan in enumerate(plans):
        golds = [gold for gold in plan.golds if gold]
        if plan.steps and golds:
            pairs[index] = (" ".join(golds[0]), " ".join(plan.steps))
    verdicts = dict(zip(pairs, classifier.judge(list(pairs.values())), strict=True))
    return [verdicts.get(index) for index in range(len(plans))]


def _read(plan: GeneratedPlan) -> tuple[Reading, Reading]:
    """Return the official and the parsed reading of a plan and its gold plans.

    In the official reading, gold plans have all of their lines; in the parsed one, blank lines are
    dropped. A gold plan of blank lines is missing in both.
    """
    text = plan_text(plan.text)
    gold_lines: list[Steps] = []
    gold_steps: list[Steps] = []
    for lines in plan.references:
        steps = [line for line in lines if line.strip()]
        gold_lines.append(lines if steps else [])
        gold_steps.append(steps)
    return Reading(official_steps(text), gold_lines), Reading(parsed_steps(text), gold_steps)


def _norms(
    lengths: Sequence[int | None], steps: Steps, reference_lengths: Sequence[int | None]
) -> list[float | None]:
    """Return the normalised LCS with each gold plan; None without the plan."""
    return [
        None if length is None or gold is None else lcs_norm(length, len(steps), gold)
        for length, gold in zip(lengths, reference_lengths, strict=True)
    ]
