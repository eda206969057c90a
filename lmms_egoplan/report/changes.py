"""Compare an earlier and a later run of one model, or of one training run."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from lmms_egoplan.report import document
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.comparability import unequal
from lmms_egoplan.report.identity import is_same_model
from lmms_egoplan.report.run import Run, changed_settings
from lmms_egoplan.report.scores import ScoredTask


def changes_of(report: BenchmarkReport[Any]) -> Iterator[document.Change]:
    """Yield every two comparable runs of related models in one task, the earlier one first."""
    tasks = sorted(report.main_tasks(), key=lambda task: task.source.time)
    for earlier, later in combinations(tasks, 2):
        models = _relation(earlier.run, later.run)
        if not (models and _is_comparable(earlier, later)):
            continue
        difference = report.difference(later, earlier)
        if difference is not None:
            yield document.Change(
                task=later.task,
                models=models,
                difference=difference,
                earlier=(earlier.source.time, earlier.main.value),
                later=(later.source.time, later.main.value),
                changed=tuple(changed_settings(earlier.source.provenance, later.source.provenance)),
            )


def _relation(earlier: Run, later: Run) -> str:
    """Say how the models of two runs are related; "" if they are not, or if it is one run."""
    if earlier is later:
        return ""
    is_same = is_same_model(earlier.identity, later.identity)
    if is_same:
        return "the same weights"
    if earlier.base_model != later.base_model:
        return ""
    if earlier.model != later.model:
        return "checkpoints of one training run, by their names"
    if is_same is None:
        return "the same name; the weights are not recorded"
    return "the same name, but different weights"


def _is_comparable(earlier: ScoredTask, later: ScoredTask) -> bool:
    """Return true if the scores of two tasks are comparable and have a meaning."""
    if any(task.is_demo or task.ranking_flaw for task in (earlier, later)):
        return False
    return not unequal(earlier, later)
