"""Summarize a task's ranking paths and their audits: the entry ``ranking`` of its details."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.memory_ahead import PEAK
from lmms_egoplan.ranking.loglikelihood import Loglikelihood

RANKING = "ranking"
"""Name of the entry."""


def ranking_details(scores: Sequence[Loglikelihood]) -> dict[str, dict[str, Any]]:
    """Return a question's entry `RANKING`; empty if the backend does not record its path.

    Args:
        scores: The scores of the question's candidates.
    """
    use = next((score.use for score in scores if score.use is not None), None)
    if use is None:
        return {}
    rejected = list(use.rejected)
    return {RANKING: asdict(use) | {"rejected": rejected, "memory_ahead": PEAK.num_bytes}}


def summarize(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarize the ranking paths of a task.

    Args:
        entries: The entries of the questions, see `ranking_details`.

    Returns:
        - ``audits``: number of audited questions, those also computed by full passes
        - ``difference``: largest difference of a mean loss from its full pass in any audit, nats;
          absent without audits
        - ``tolerance``: largest tolerance of any audit for this difference, nats
        - ``noise``: largest measured change of a mean loss by rounding, nats; absent if no backend
          measured it
        - ``near_ties``: number of questions whose best candidate leads by less than the possible
          effect of rounding
        - ``memory_ahead``: the most memory, MiB, that one process used to read ahead of the model
        - ``note``: notes about the backend for readers of the results; absent without any

    Raises:
        LmmsEgoplanError: A question rejected a path on which other questions of its kind were
            ranked.

    >>> question = {
    ...     "kind": "image", "path": "packed", "rejected": [], "audit": None, "tolerance": 1e-4,
    ...     "near_tie": False, "memory_ahead": 2**20,
    ... }
    >>> summarize([question, question | {"audit": 2e-06}, question | {"audit": 0.0}])
    {'audits': 2, 'near_ties': 0, 'memory_ahead': 1.0, 'difference': 2e-06, 'tolerance': 0.0001}
    """
    _refuse_rejected_paths(entries)
    audited = [entry for entry in entries if entry["audit"] is not None]
    summary: dict[str, Any] = {
        "audits": len(audited),
        "near_ties": sum(entry["near_tie"] for entry in entries),
        "memory_ahead": max(entry["memory_ahead"] for entry in entries) / 2**20,
    }
    largest = {
        "difference": [entry["audit"] for entry in audited],
        "tolerance": [entry["tolerance"] for entry in audited],
        "noise": [entry.get("noise") for entry in entries],
    }
    for name, values in largest.items():
        known = [value for value in values if value is not None]
        if known:
            summary[name] = max(known)
    notes = sorted({entry["note"] for entry in entries if entry.get("note")})
    if notes:
        summary["note"] = "; ".join(notes)
    return summary


def _refuse_rejected_paths(entries: Sequence[Mapping[str, Any]]) -> None:
    """Check that no question was ranked on a path that is inexact for its kind of question.

    Raises:
        LmmsEgoplanError: See `summarize`.
    """
    used: dict[tuple[str, str], int] = defaultdict(int)
    for entry in entries:
        used[entry["kind"], entry["path"]] += 1
    for entry in entries:
        for path in entry["rejected"]:
            count = used.get((entry["kind"], path))
            if count:
                raise LmmsEgoplanError(
                    f"{count} questions ({entry['kind']}) were ranked on the path {path}, which is "
                    "inexact for another question of that kind. Do not use any score of this run. "
                    "Repeat it with --model_args ...,ranking_path=full, which runs a full pass "
                    "per candidate"
                )


def failed_audits(details: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one message for each task of a run whose forced path failed an audit.

    Args:
        details: The details of each task.

    >>> failed_audits({"task": {"ranking": {"difference": 0.5, "tolerance": 1e-4}}})
    ['task: ranking differs from full passes by 0.5 nats, more than 0.0001']
    >>> failed_audits({"task": {"num_questions": 4}})
    []
    """
    messages = []
    for task, task_details in details.items():
        objection = ranking_flaw(task_details.get(RANKING, {}))
        if objection:
            messages.append(f"{task}: {objection}")
    return messages


def ranking_flaw(ranking: Mapping[str, Any]) -> str | None:
    """Return a message if an audit's difference from full passes exceeds the tolerance.

    Args:
        ranking: A task's summary, see `summarize`; empty without one.
    """
    difference = ranking.get("difference")
    tolerance = ranking.get("tolerance")
    if difference is None or tolerance is None or not difference > tolerance:
        return None
    return f"ranking differs from full passes by {difference:.2g} nats, more than {tolerance:.2g}"
