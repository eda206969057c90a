"""ActPlan-1K's LCS of plans (sec. 4.2.1) as a metric of the library evaluate."""

from typing import Any

import datasets
import evaluate

from lmms_egoplan.benchmarks.actplan.evaluate_metrics import check_texts, metric_info
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.actplan.scoring import GeneratedPlan, score_plans
from lmms_egoplan.benchmarks.aggregations import mean_score
from lmms_egoplan.encoder import DEFAULT_ENCODER

_DESCRIPTION = """\
The longest common subsequence (LCS) of a generated plan and a gold plan, in steps, and divided by the length of the
longer plan (ActPlan-1K, sec. 4.2.1). Two steps match if the cosine of their sentence embeddings is at least 0.8.
"""
_INPUTS = """\
Args:
    predictions (list of str): plans, one step per line. An empty plan scores 0.
    references (list of str, or list of lists of str): the gold plan of each, one step per line; or its gold plans, the
        first of which is the one of lcs and lcs_norm. A plan without a gold plan ("" or []) is in no mean.
    encoder (str): a sentence encoder, by its name on the hub or its folder; all-MiniLM-L6-v2 by default. The
        environment variable LMMS_EGOPLAN_ENCODER wins over it.
Returns:
    lcs (float): mean LCS with the first gold plan, in steps; NaN where no plan has one.
    lcs_norm (float): mean of the LCS divided by the longer plan's number of steps, in [0, 1].
    lcs_best, lcs_norm_best (float): the same with each plan's best gold plan.
    lcs_parsed, lcs_norm_parsed (float): as lcs and lcs_norm, of the steps found in the text in place of its lines:
        without headings, numbers and what else a model wraps a plan in.
    num_plans (int): plans that lcs is the mean of.
    num_plans_parsed (int): plans in whose text steps were found.
    per_plan (list of dict): the six values of each plan; None where there is no gold plan.
Examples:
    >>> metric = evaluate.load(folder + "/actplan_lcs")  # folder: what `lmms-egoplan metrics-path` prints
    >>> results = metric.compute(
    ...     predictions=["walk_to(table)\\ngrab(cup)"], references=["walk_to(table)\\nopen(box)\\ngrab(cup)"]
    ... )
    >>> results["lcs"], round(results["lcs_norm"], 3)
    (2.0, 0.667)
"""
_MEASURES = ("lcs", "lcs_norm", "lcs_best", "lcs_norm_best", "lcs_parsed", "lcs_norm_parsed")


class ActPlanLCS(evaluate.Metric):
    """See `evaluate.Metric`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        one = datasets.Features({"predictions": text, "references": text})
        several = datasets.Features({"predictions": text, "references": datasets.Sequence(text)})
        return metric_info(_DESCRIPTION, _INPUTS, [one, several])

    def _compute(
        self, predictions: list[str], references: list[str] | list[list[str]], encoder: str = DEFAULT_ENCODER
    ) -> dict[str, Any]:
        golds = [[gold] if isinstance(gold, str) else gold for gold in check_texts("references", references)]
        plans = [
            GeneratedPlan(
                id=str(index),
                text=prediction,
                references=[official_steps(gold) for gold in check_texts(f"references[{index}]", golds[index])] or [[]],
            )
            for index, prediction in enumerate(check_texts("predictions", predictions))
        ]
        scored = score_plans(plans, encoder, show_progress=False)
        per_plan = [{name: score.measures()[name] for name in _MEASURES} for score in scored]
        return {
            **{
                name: mean_score([{"score": row[name]} for row in per_plan if row[name] is not None])
                for name in _MEASURES
            },
            "num_plans": sum(row["lcs"] is not None for row in per_plan),
            "num_plans_parsed": sum(bool(score.parsed) for score in scored),
            "per_plan": per_plan,
        }
