"""ActPlan-1K's classifier of plans (sec. 4.2.2) as a metric for Hugging Face's library evaluate."""

import math
from statistics import fmean
from typing import Any

import datasets
import evaluate

from lmms_egoplan.benchmarks.actplan import evaluate_metrics
from lmms_egoplan.benchmarks.actplan.classifier import (
    BLEURT_VARIABLE,
    classifier_path,
    load_classifier,
)
from lmms_egoplan.benchmarks.actplan.evaluate_metrics import check_texts, metric_info
from lmms_egoplan.benchmarks.actplan.reply import parsed_steps, plan_text
from lmms_egoplan.benchmarks.actplan.scoring import Reading, classify_plans
from lmms_egoplan.errors import LmmsEgoplanError

_DESCRIPTION = """\
The share of generated plans that a finetuned BLEURT calls correct, given a gold plan of the same \
instance
(ActPlan-1K, sec. 4.2.2). The classifier is trained with `lmms-egoplan train actplan-bleurt`.
"""
_INPUTS = """\
Args:
    predictions (list of str): plans. A plan without steps is wrong; the classifier is not asked \
about it.
    references (list of str): one gold plan for each prediction, one step per line. A plan without \
a gold plan ("") is
        not classified.
    classifier (str): folder written by `lmms-egoplan train actplan-bleurt`. Default: the \
environment variable
        LMMS_EGOPLAN_BLEURT.
Returns:
    correct (float): share of the plans called correct, in [0, 1]; NaN if no plan has a gold plan.
    num_plans (int): number of plans in this share.
    verdicts (list of bool): True for a plan called correct; None without a gold plan.
    probabilities (list of float): probability of being correct, in [0, 1]; None if the classifier \
was not asked.
    truncated (int): number of plans that the classifier saw only in part, together with their \
gold plans.
Examples:
    >>> metric = evaluate.load(folder + "/actplan_classifier")  # folder: printed by `lmms-egoplan \
metrics-path actplan`
    >>> results = metric.compute(
    ...     predictions=["grab(cup)"], references=["walk_to(table)\\ngrab(cup)"], \
classifier="my-classifier"
    ... )
    >>> results["verdicts"]
    [False]
"""


class ActPlanClassifier(evaluate_metrics.PlanMetric):
    """Metric of the plans that the classifier calls correct; see `evaluate.Metric`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return metric_info(_DESCRIPTION, _INPUTS, features)

    def _compute(
        self, predictions: list[str], references: list[str], classifier: str | None = None
    ) -> dict[str, Any]:
        folder = classifier or classifier_path()
        if folder is None:
            raise LmmsEgoplanError(
                "no classifier is set: pass classifier=FOLDER to compute(...), or set "
                f"{BLEURT_VARIABLE} to a folder written by `lmms-egoplan train actplan-bleurt`"
            )
        model = load_classifier(folder)
        readings: list[Reading] = []
        texts = check_texts("predictions", predictions)
        all_golds = check_texts("references", references)
        for text, gold in zip(texts, all_golds, strict=True):
            lines = [line for line in gold.splitlines() if line.strip()]
            readings.append(Reading(parsed_steps(plan_text(text)), [lines]))
        answers = classify_plans(readings, model)
        verdicts: list[bool | None] = []
        for answer, reading in zip(answers, readings, strict=True):
            (gold_steps,) = reading.golds
            if gold_steps:
                verdicts.append(answer is not None and answer.correct)
            else:
                verdicts.append(None)
        defined = [verdict for verdict in verdicts if verdict is not None]
        return {
            "correct": fmean(defined) if defined else math.nan,
            "num_plans": len(defined),
            "verdicts": verdicts,
            "probabilities": [None if answer is None else answer.probability for answer in answers],
            "truncated": sum(answer.truncated for answer in answers if answer),
        }
