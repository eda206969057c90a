"""ActPlan-1K's classifier of plans (sec. 4.2.2) as a metric for Hugging Face's library evaluate."""

import math
from statistics import fmean
from typing import Any

import datasets
import evaluate

from lmms_egoplan.benchmarks.actplan import evaluate_metrics
from lmms_egoplan.benchmarks.actplan.bleurt import BLEURT_VARIABLE, classifier_path, load_classifier
from lmms_egoplan.benchmarks.actplan.evaluate_metrics import check_texts, metric_info
from lmms_egoplan.benchmarks.actplan.reply import parsed_steps, plan_text
from lmms_egoplan.benchmarks.actplan.scoring import Reading, classify_plans
from lmms_egoplan.errors import LmmsEgoplanError


class ActPlanClassifier(evaluate_metrics.PlanMetric):
    """Metric of the plans that the classifier calls correct; see `evaluate.Metric`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return metric_info("actplan_classifier", features)

    def _compute(
        self, predictions: list[str], references: list[str], classifier: str | None = None
    ) -> dict[str, Any]:
        folder = classifier or classifier_path()
        if folder is None:
            raise LmmsEgoplanError(
                "no classifier is set: pass classifier=FOLDER to compute(...), or set "
                f"{BLEURT_VARIABLE} to a folder "
                "written by `lmms-egoplan train actplan-bleurt`"
            )
        model = load_classifier(folder)
        steps = [parsed_steps(plan_text(text)) for text in check_texts("predictions", predictions)]
        golds = [
            [line for line in text.splitlines() if line.strip()]
            for text in check_texts("references", references)
        ]
        answers = classify_plans(
            [Reading(plan, [gold]) for plan, gold in zip(steps, golds, strict=True)], model
        )
        verdicts = [
            (answer is not None and answer.correct) if gold else None
            for answer, gold in zip(answers, golds, strict=True)
        ]
        defined = [verdict for verdict in verdicts if verdict is not None]
        return {
            "correct": fmean(defined) if defined else math.nan,
            "num_plans": len(defined),
            "verdicts": verdicts,
            "probabilities": [answer and answer.probability for answer in answers],
            "truncated": sum(answer.truncated for answer in answers if answer),
        }
