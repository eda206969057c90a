"""Compute a task's metrics about its ranking paths and their audits."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.memory_ahead import PEAK
from lmms_egoplan.ranking.loglikelihood import Loglikelihood

METRICS = (
    "ranking_audits",
    "ranking_audit_difference",
    "ranking_tolerance",
    "ranking_noise",
    "near_ties",
    "ranking_memory_ahead",
)


def audit_values(scores: Sequence[Loglikelihood]) -> dict[str, dict[str, Any]]:
    """Return a question's values of `METRICS`; empty if the backend does not record its path.

    ``ranking_note`` is added if the backend has a note.

    Args:
        scores: The scores of the question's candidates.
    """
    use = next((score.use for score in scores if score.use is not None), None)
    if use is None:
        return {}
    value = asdict(use) | {"rejected": list(use.rejected), "memory_ahead": PEAK.num_bytes}
    return dict.fromkeys((*METRICS, "ranking_note") if use.note else METRICS, value)


def num_audits(values: Sequence[Mapping[str, Any]]) -> int:
    """Count the audited questions: those also computed by full passes.

    Raises:
        LmmsEgoplanError: A question rejected a path on which other questions of its kind were
            ranked.

    >>> question = {"kind": "image", "path": "packed", "audit": None, "rejected": []}
    >>> num_audits([question, question | {"audit": 2e-06}, question | {"audit": 0.0}])
    2
    """
    used: dict[tuple[str, str], int] = defaultdict(int)
    for value in values:
        used[value["kind"], value["path"]] += 1
    for value in values:
        for path in value["rejected"]:
            count = used.get((value["kind"], path))
            if count:
                raise LmmsEgoplanError(
                    f"{count} questions ({value['kind']}) were ranked on the path {path}, which is "
                    "inexact for another question of that kind. Do not use any score of this run. "
                    "Repeat it with --model_args ...,ranking_path=full, which runs a full pass "
                    "per candidate"
                )
    return sum(value["audit"] is not None for value in values)


def largest_difference(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest difference of a mean loss from its full pass in any audit, nats.

    NaN without audits.

    >>> question = {"kind": "image", "path": "packed", "audit": 1e-06, "rejected": []}
    >>> largest_difference([question, question | {"audit": 2e-06}])
    2e-06
    """
    num_audits(values)
    return max((value["audit"] for value in values if value["audit"] is not None), default=math.nan)


def largest_tolerance(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest tolerance of any audit for a difference of mean losses, nats.

    NaN without audits.

    >>> question = {"audit": 1e-06, "tolerance": 0.0001}
    >>> largest_tolerance([question, question | {"audit": None}])
    0.0001
    """
    tolerances = [value["tolerance"] for value in values if value["audit"] is not None]
    return max((tolerance for tolerance in tolerances if tolerance is not None), default=math.nan)


def largest_noise(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest measured change of a mean loss by rounding, nats.

    NaN if no backend measured it.

    >>> largest_noise([{"noise": 0.002}, {"noise": 0.003}, {"noise": None}])
    0.003
    """
    noises = [value.get("noise") for value in values]
    return max((noise for noise in noises if noise is not None), default=math.nan)


def num_near_ties(values: Sequence[Mapping[str, Any]]) -> int:
    """Count the questions whose best candidate leads by less than the possible effect of rounding.

    >>> num_near_ties([{"near_tie": True}, {"near_tie": False}])
    1
    """
    return sum(value["near_tie"] for value in values)


def memory_ahead(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the most memory, MiB, that one process used to read ahead of the model.

    >>> memory_ahead([{"memory_ahead": 2**20}, {"memory_ahead": 2**21}])
    2.0
    """
    return max(value["memory_ahead"] for value in values) / 2**20


def failed_audits(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one message for each task of a run whose forced path failed an audit.

    Args:
        results: The metrics of each task, with the harness's names.

    >>> run = {"task": {"ranking_audit_difference,none": 0.5, "ranking_tolerance,none": 1e-4}}
    >>> failed_audits(run)
    ['task: ranking differs from full passes by 0.5 nats, more than 0.0001']
    >>> failed_audits({"task": {"acc,none": 0.5}})
    []
    """
    messages = []
    for task, metrics in results.items():
        objection = ranking_flaw(metrics)
        if objection:
            messages.append(f"{task}: {objection}")
    return messages


def ranking_flaw(metrics: Mapping[str, Any]) -> str | None:
    """Return a message if an audit's difference from full passes exceeds the tolerance."""
    difference = metrics.get("ranking_audit_difference,none")
    tolerance = metrics.get("ranking_tolerance,none")
    if difference is None or tolerance is None or not difference > tolerance:
        return None
    return f"ranking differs from full passes by {difference:.2g} nats, more than {tolerance:.2g}"


def notes(values: Sequence[Mapping[str, Any]]) -> str:
    """Return notes about the backend for readers of the results.

    >>> notes([{"note": "vLLM not compared with transformers for this model"}] * 2)
    'vLLM not compared with transformers for this model'
    """
    return "; ".join(sorted({value["note"] for value in values}))
