"""The evaluation that runs in this process: its model, and what is known about its questions.

Tasks and filters get documents and settings from a harness, but not the model. They find it here
while the harness's ``evaluate`` runs. Nothing outlives an evaluation, so that several models and
data folders can be evaluated in one process.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lmms_egoplan.judging.settings import forget_usage
from lmms_egoplan.memory_ahead import PEAK


def _no_counts() -> defaultdict[tuple[Any, Any], dict[str, Any]]:
    return defaultdict(dict)


@dataclass
class Evaluation:
    """One run of a harness's ``evaluate``.

    Attributes:
        model: The harness's model.
        counts: Known counts of each question of this process, or functions that return them, by
            task and document.
    """

    model: Any
    counts: defaultdict[tuple[Any, Any], dict[str, Any]] = field(default_factory=_no_counts)


_running: Evaluation | None = None


def running() -> Evaluation | None:
    """Return the evaluation that runs in this process; None between evaluations."""
    return _running


@contextmanager
def evaluating(model: Any) -> Iterator[Evaluation]:
    """Evaluate a model: tasks of all threads see it until the end, and nothing of earlier ones."""
    global _running
    outer = _running
    _running = Evaluation(model)
    PEAK.num_bytes = 0
    try:
        yield _running
    finally:
        _running = outer
        if outer is None:
            forget_usage()
