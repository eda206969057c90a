"""Metrics of the reference-free scores: per step what a harness collects, and the aggregations over a run.

As in `metrics`: a score is 0 where a field that it is about is missing, and one that no judge has rated counts only
against the coverage. `metrics` has the other aggregations: `field_score` for each score, `judge_coverage`,
`suspect_share`, `parsed_share`, `judge_models`, `media_used`, `num_steps` and `coverage`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import SCORES, askable
from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import Diagnosis
from lmms_egoplan.benchmarks.egointent.metrics import Values, field_score, group_of


def score_diagnostics(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Values of one step.

    Args:
        doc: a row of the prepared dataset.
        responses: one text of `Diagnosis`.

    Returns:
        Each of `SCORES`, with ``score`` (0..100) only where there is one; ``diagnostics``, with all fields of
        `Diagnosis`, ``missing`` (scores), ``video_id``, ``environment``, ``scenario`` or, of a Goal-Step step,
        ``category`` and, only where all four are there, their mean as ``score``; ``judge_coverage``, ``parsed``,
        ``truncated``, ``truncated_of``, ``suspect``, ``judge_model``, ``media``, ``coverage`` and ``num_steps``.

    Raises:
        ValueError: not one response, one that is no diagnosis, or the answer to another step.

    >>> from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import DiagnosedStep, diagnose
    >>> answer = DiagnosedStep(
    ...     step_id="P01/3", fields={"next_step_plan": "spread butter"}, truncated=False, frames_shown=8,
    ...     frames_sampled=30, load_images=list,
    ... )
    >>> (diagnosis,) = diagnose([answer], None, show_progress=False)  # without a judge
    >>> doc = {
    ...     "step_id": "P01/3", "video_id": "P01", "environment": "indoor", "scenario": "cooking", "split_size": 300,
    ... }
    >>> values = score_diagnostics(doc, [diagnosis.to_text()])
    >>> values["gf"], values["npf"]
    ({'missing': True, 'video_id': 'P01', 'score': 0.0}, {'missing': False, 'video_id': 'P01'})
    >>> values["judge_coverage"]
    {'found': 1, 'judged': 0}
    """
    (text,) = responses
    step = Diagnosis.from_text(text)
    if step.step_id != doc["step_id"]:
        raise ValueError(f"step {doc['step_id']} got the diagnosis of {step.step_id}")
    asked = askable(step.fields)
    judged = [name for name in asked if step.scores[name] is not None]
    place = {name: doc[name] for name in ("video_id", "environment")} | group_of(doc)
    diagnostics = asdict(step) | {"missing": step.missing} | place
    if None not in step.scores.values():
        diagnostics["score"] = fmean(step.scores.values())
    return _by_score(step.scores, step.missing, doc["video_id"]) | {
        "diagnostics": diagnostics,
        "judge_coverage": {"found": len(asked), "judged": len(judged)},
        "parsed": {"found": len(step.fields)},
        "truncated": {"truncated": step.truncated},
        "truncated_of": {"truncated": step.truncated},
        "suspect": {"found": len(step.fields), "suspect": len(step.suspect)},
        "judge_model": {"judges": [step.judges[name] for name in judged]},
        "media": {"media": step.media},
        "coverage": {"split_size": doc["split_size"]},
        "num_steps": {"step_id": step.step_id},
    }


def mean_diagnostics(values: Sequence[Mapping[str, Any]]) -> float:
    """Mean of the four scores' means over a run's steps, 0..100; NaN if one of them has none.

    >>> scores = {"gf": 80.0, "hic": 60.0, "tpc": 40.0, "npf": 20.0}
    >>> mean_diagnostics([{"scores": scores, "missing": [], "video_id": "P01"}])
    50.0
    """
    steps = [_by_score(value["scores"], value["missing"], value["video_id"]) for value in values]
    return fmean(field_score([step[name] for step in steps]) for name in SCORES)


def _by_score(scores: Mapping[str, float | None], missing: Sequence[str], video_id: str) -> Values:
    return {
        name: {"missing": name in missing, "video_id": video_id} | ({} if score is None else {"score": score})
        for name, score in scores.items()
    }
