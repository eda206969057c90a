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

_DESCRIPTION = """\
The longest common subsequence (LCS) of a generated plan and a gold plan, in steps, and divided by \
the length of the
longer plan (ActPlan-1K, sec. 4.2.1). Two steps match if the cosine of their sentence embeddings \
is at least 0.8.
"""
_INPUTS = """\
Args:
    predictions (list of str): plans, one step per line. An empty plan scores 0.
    references (list of str, or list of lists of str): one gold plan for each prediction, one step \
per line; or a list
        of gold plans, where lcs and lcs_norm use the first. Means exclude plans without a gold \
plan ("" or []).
    encoder (str): name on the hub, or folder, of a sentence encoder. Default: the environment \
variable
        LMMS_EGOPLAN_ENCODER, or all-MiniLM-L6-v2.
Returns:
    lcs (float): mean LCS with the first gold plan, in steps; NaN if no plan has a gold plan.
    lcs_norm (float): mean of the LCS divided by the longer plan's number of steps, in [0, 1].
    lcs_best, lcs_norm_best (float): the same with each plan's best gold plan.
    lcs_parsed, lcs_norm_parsed (float): lcs and lcs_norm of the parsed steps instead of the \
text's lines; headings,
        numbers and other text around the plan are ignored.
    num_plans (int): number of plans in the mean lcs.
    num_plans_parsed (int): number of plans whose text contains steps.
    per_plan (list of dict): the six values of each plan; None without a gold plan.
Examples:
    >>> metric = evaluate.load(folder + "/actplan_lcs")  # folder: printed by `lmms-egoplan \
metrics-path actplan`
    >>> results = metric.compute(
    ...     predictions=["walk_to(table)\\ngrab(cup)"], \
references=["walk_to(table)\\nopen(box)\\ngrab(cup)"]
    ... )
    >>> results["lcs"], round(results["lcs_norm"], 3)
    (2.0, 0.667)
"""
_MEASURES = ("lcs", "lcs_norm", "lcs_best", "lcs_norm_best", "lcs_parsed", "lcs_norm_parsed")


class ActPlanLCS(evaluate_metrics.PlanMetric):
    """Metric of the LCS with gold plans; see `evaluate.Metric`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        single_gold_plans = datasets.Features({"predictions": text, "references": text})
        lists_of_gold_plans = datasets.Features(
            {"predictions": text, "references": datasets.Sequence(text)}
        )
        return metric_info(_DESCRIPTION, _INPUTS, [single_gold_plans, lists_of_gold_plans])

    def _compute(
        self,
        predictions: list[str],
        references: list[str] | list[list[str]],
        encoder: str | None = None,
    ) -> dict[str, Any]:
        plans: list[GeneratedPlan] = []
        all_golds = check_texts("references", references)
        texts = check_texts("predictions", predictions)
        for index, (text, golds) in enumerate(zip(texts, all_golds, strict=True)):
            golds = [golds] if isinstance(golds, str) else golds
            steps = [official_steps(gold) for gold in check_texts(f"references[{index}]", golds)]
            # A plan without a gold plan has an empty one.
            plans.append(GeneratedPlan(id=str(index), text=text, references=steps or [[]]))
        scores = score_plans(plans, encoder)
        per_plan: list[dict[str, float | None]] = []
        for score in scores:
            measures = score.measures()
            per_plan.append({name: measures[name] for name in _MEASURES})
        results: dict[str, Any] = {}
        for name in _MEASURES:
            values = [{"score": row[name]} for row in per_plan if row[name] is not None]
            results[name] = mean_score(values)
        return results | {
            "num_plans": sum(row["lcs"] is not None for row in per_plan),
            "num_plans_parsed": sum(bool(score.parsed) for score in scores),
            "per_plan": per_plan,
        }
