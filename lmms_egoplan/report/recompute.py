"""Recompute a run's scores from its samples, and compare them with the harness's own."""

import math
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.task_files import package_versions
from lmms_egoplan.validation import listing, quoted

# Relative tolerance, since sums of floats in another order differ in the last digits.
_TOLERANCE = 1e-9


def recompute(task_run: TaskRun) -> dict[str, Any]:
    """Compute a task's metrics and details from its samples.

    Omit those without a value, as the harness does.

    Raises:
        LmmsEgoplanError: a value in the samples does not have the task's form.
    """
    metrics = {}
    for metric, name in (task_run.scoring.metrics if task_run.scoring else {}).items():
        values = [sample[metric] for sample in task_run.samples or () if metric in sample]
        if values:
            try:
                metrics[metric] = resolve_name(name)(values)
            except LmmsEgoplanError as error:
                raise LmmsEgoplanError(f"samples of {task_run.task}: {metric}: {error}") from error
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise LmmsEgoplanError(
                    f"samples of {task_run.task}: {metric} cannot be computed: "
                    f"{type(error).__name__}: {error}. If the samples were edited or come from "
                    "another version, run the task again or remove them"
                ) from error
    return metrics.pop(DETAILS, {}) | metrics


def check(run: Run, task_run: TaskRun) -> None:
    """Compare the harness's own scores with those computed from the samples, if there are samples.

    Numbers may differ by a relative 1e-9. NaN equals NaN.

    Raises:
        LmmsEgoplanError: the scores differ, or only one side has a metric. The message names the
            run's folder, the task and the first 20 metrics with both values, beginning with the
            number of questions.
    """
    if task_run.samples is None or task_run.scoring is None:
        return
    recomputed = recompute(task_run)
    rows = [metric for metric in task_run.scoring.metrics if metric != DETAILS]
    differences: list[str] = []
    for name in dict.fromkeys((task_run.scoring.count, *rows, *task_run.details, *recomputed)):
        logged = task_run.metrics.get(name)
        differences.extend(_differences(name, logged, recomputed.get(name)))
    if differences:
        source = run.source(task_run.task)
        raise LmmsEgoplanError(
            f"{source.folder}, run {run.name}, task {task_run.task}: the harness's scores differ "
            f"from those of the {len(task_run.samples)} samples:\n{listing(differences)}\n"
            "The sample file is incomplete, belongs to another run, or was written by another "
            f"version (the run's task has version {task_run.version or 'unknown'}, this package's "
            f"{package_versions().get(task_run.task, 'unknown')}). Move the file away, or run "
            f"again: {source.harness} --tasks {task_run.task} --model ... --output_path DIR "
            "--log_samples"
        )


def _differences(name: str, logged: Any, recomputed: Any) -> Iterator[str]:
    """Describe differences between the harness's value and the recomputed one.

    A missing value is None.
    """
    if isinstance(logged, dict) and isinstance(recomputed, dict):
        for key in logged | recomputed:
            yield from _differences(f"{name} of {key}", logged.get(key), recomputed.get(key))
    elif not _equal(logged, recomputed):
        yield f"{name}: {quoted(logged)} in the results, {quoted(recomputed)} from the samples"


def _equal(logged: Any, recomputed: Any) -> bool:
    if recomputed is None and isinstance(logged, float) and math.isnan(logged):
        return True  # With several processes, lm-eval logs NaN if there are no samples.
    if isinstance(logged, (int, float)) and isinstance(recomputed, (int, float)):
        both_nan = math.isnan(logged) and math.isnan(recomputed)
        return both_nan or math.isclose(logged, recomputed, rel_tol=_TOLERANCE)
    return logged == recomputed
