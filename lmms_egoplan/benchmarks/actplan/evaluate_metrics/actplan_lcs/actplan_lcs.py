"""ActPlan-1K's LCS of plans (sec. 4.2.1) as a metric for Hugging Face's library evaluate."""

from typing import Any

import datasets
import evaluate

from lmms_egoplan.benchmarks.actplan import evaluate_metrics
from lmms_egoplan.benchmarks.actplan.evaluate_metrics import check_texts, metric_info
from lmms_egoplan.benchmarks.actplan.plans import GeneratedPlan
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.actplan.scoring import score_plans
from lmms_egoplan.benchmarks.aggregations import mean_score

_MEASURES = ("lcs", "lcs_norm", "lcs_best", "lcs_norm_best", "lcs_parsed", "lcs_norm_parsed")


class ActPlanLCS(evaluate_metrics.PlanMetric):
    """Metric of the LCS with gold plans; see `evaluate.Metric`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        single_gold_plans = datasets.Features({"predictions": text, "references": text})
        lists_of_gold_plans = datasets.Features(
            {"predictions": text, "references": datasets.Sequence(text)}
        )
        return metric_info("actplan_lcs", [single_gold_plans, lists_of_gold_plans])

    def _compute(
        self,
        predictions: list[str],
        references: list[str] | list[list[str]],
        encoder: str | None = None,
    ) -> dict[str, Any]:
        golds = [
            [gold] if isinstance(gold, str) else gold
            for gold in check_texts("references", references)
        ]
        plans = [
            GeneratedPlan(
                id=str(index),
                text=prediction,
                references=[
                    official_steps(gold)
                    for gold in check_texts(f"references[{index}]", golds[index])
                ]
                or [[]],
            )
            for index, prediction in enumerate(check_texts("predictions", predictions))
        ]
        scored = score_plans(plans, encoder)
        per_plan = [{name: score.measures()[name] for name in _MEASURES} for score in scored]
        return {
            **{
                name: mean_score(
                    [{"score": row[name]} for row in per_plan if row[name] is not None]
                )
                for name in _MEASURES
            },
            "num_plans": sum(row["lcs"] is not None for row in per_plan),
            "num_plans_parsed": sum(bool(score.parsed) for score in scored),
            "per_plan": per_plan,
        }
