"""Compare an earlier and a later run of one model."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from lmms_egoplan.report import document
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.comparability import unequal
from lmms_egoplan.report.run import changed_settings
from lmms_egoplan.report.scores import ScoredTask


def changes_of(report: BenchmarkReport[Any]) -> Iterator[document.Change]:
    """Yield every two comparable runs of one model in one task, the earlier one first."""
    tasks = sorted(report.main_tasks(), key=lambda task: task.run.time)
    for earlier, later in combinations(tasks, 2):
        if not _is_change(earlier, later):
            continue
        difference = report.difference(later, earlier)
        if difference is not None:
            yield document.Change(
                task=later.task,
                difference=difference,
                earlier=(earlier.run.time, earlier.main.value),
                later=(later.run.time, later.main.value),
                changed=tuple(changed_settings(earlier.run.provenance, later.run.provenance)),
                gallery=(earlier.gallery, later.gallery),
            )


def _is_change(earlier: ScoredTask, later: ScoredTask) -> bool:
    """Return true if two tasks are comparable, and of two runs of one model."""
    if earlier.run is later.run or earlier.run.base_model != later.run.base_model:
        return False
    if any(task.is_demo or task.ranking_flaw for task in (earlier, later)):
        return False
    return not unequal(earlier, later)
