"""Metrics of the reference-free scores: per step what a harness collects, and the mean over a run.

As in `egointent.metrics`: a score is 0 where a field that it is about is missing, and one that no judge has rated counts
only against the coverage.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import SCORES
from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import Diagnosis
from lmms_egoplan.benchmarks.egointent.metrics import Values, mean_of_ratings, values_of


def score_diagnostics(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Values of one step.

    Args:
        doc: a row of the prepared dataset.
        responses: one text of `Diagnosis`.

    Returns:
        Each of `SCORES`, with ``score`` (0..100) only where there is one; ``diagnostics``, with all fields of
        `Diagnosis`, ``missing`` (scores), ``video_id``, ``environment``, ``scenario`` or, of a Goal-Step step,
        ``category`` and, only where all four are there, their mean as ``score``; ``judge_coverage``, ``parsed``,
        ``truncated``, ``truncated_of``, ``suspect``, ``judge_model``, ``media``, ``num_steps`` and those of `covered`.

    Raises:
        ValueError: not one response, one that is no diagnosis, or the answer to another step.

    >>> from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import DiagnosedStep, diagnose
    >>> answer = DiagnosedStep(
    ...     step_id="P01/3", fields={"next_step_plan": "spread butter"}, truncated=False, frames_shown=8,
    ...     frames_sampled=30, load_images=list,
    ... )
    >>> (diagnosis,) = diagnose([answer], None)  # without a judge
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
    return values_of(Diagnosis.from_text(text), doc, "diagnostics")


def mean_diagnostics(values: Sequence[Mapping[str, Any]]) -> float:
    """Mean of the four scores' means over a run's steps, 0..100; NaN if one of them has none.

    >>> scores = {"gf": 80.0, "hic": 60.0, "tpc": 40.0, "npf": 20.0}
    >>> mean_diagnostics([{"scores": scores, "missing": [], "video_id": "P01"}])
    50.0
    """
    return mean_of_ratings(values, "scores", SCORES)
