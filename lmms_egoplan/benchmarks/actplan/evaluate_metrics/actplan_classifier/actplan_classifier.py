"""ActPlan-1K's classifier of plans (sec. 4.2.2) as a metric of the library evaluate."""

import math
from statistics import fmean
from typing import Any

import datasets
import evaluate

from lmms_egoplan.benchmarks.actplan.bleurt.classifier import BLEURT_VARIABLE, classifier_path, load_classifier
from lmms_egoplan.benchmarks.actplan.evaluate_metrics import check_texts, metric_info
from lmms_egoplan.benchmarks.actplan.reply import parsed_steps
from lmms_egoplan.benchmarks.actplan.scoring import classify_plans
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import clean_text

_DESCRIPTION = """\
The share of generated plans that a finetuned BLEURT calls correct, given a gold plan of the same instance
(ActPlan-1K, sec. 4.2.2). The classifier is trained with `lmms-egoplan train bleurt`.
"""
_INPUTS = """\
Args:
    predictions (list of str): plans. One in whose text no step is found is wrong, and the classifier is not asked.
    references (list of str): the gold plan of each, one step per line. A plan without one ("") is not classified.
    classifier (str): the folder that `lmms-egoplan train bleurt` has written. The environment variable
        LMMS_EGOPLAN_BLEURT wins over it.
Returns:
    correct (float): share of the plans called correct, in [0, 1]; NaN where no plan has a gold plan.
    num_plans (int): plans that it is the share of.
    verdicts (list of bool): whether each plan is called correct; None where there is no gold plan.
    probabilities (list of float): of being correct, in [0, 1]; None where the classifier was not asked.
    truncated (int): plans of which, together with their gold plans, the classifier saw only a part.
Examples:
    >>> metric = evaluate.load(folder + "/actplan_classifier")  # folder: what `lmms-egoplan metrics-path` prints
    >>> results = metric.compute(
    ...     predictions=["grab(cup)"], references=["walk_to(table)\\ngrab(cup)"], classifier="my-classifier"
    ... )
    >>> results["verdicts"]
    [False]
"""


class ActPlanClassifier(evaluate.Metric):
    """See `evaluate.Metric`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return metric_info(_DESCRIPTION, _INPUTS, features)

    def _compute(self, predictions: list[str], references: list[str], classifier: str | None = None) -> dict[str, Any]:
        folder = classifier_path(classifier)
        if folder is None:
            raise LmmsEgoplanError(
                f"no classifier: compute(..., classifier=FOLDER) or {BLEURT_VARIABLE} names the folder that "
                "`lmms-egoplan train bleurt` has written"
            )
        model = load_classifier(folder)
        steps = [parsed_steps(clean_text(text)) for text in check_texts("predictions", predictions)]
        golds = [[line for line in text.splitlines() if line.strip()] for text in check_texts("references", references)]
        has_gold = [bool(gold) for gold in golds]
        asked = classify_plans([[gold] for gold in golds], steps, model, show_progress=False)
        verdicts = [
            (answer is not None and answer.correct) if known else None
            for answer, known in zip(asked, has_gold, strict=True)
        ]
        called = [verdict for verdict in verdicts if verdict is not None]
        return {
            "correct": fmean(called) if called else math.nan,
            "num_plans": len(called),
            "verdicts": verdicts,
            "probabilities": [answer and answer.probability for answer in asked],
            "truncated": sum(answer.truncated for answer in asked if answer),
        }
