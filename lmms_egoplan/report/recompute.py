"""A run's scores, recomputed from its samples by the functions that the tasks name."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.task_versions import package_versions, read_task_file
from lmms_egoplan.validation import listing, shown

# Sums of floats in another order differ in the last digits.
_TOLERANCE = 1e-9
_SHARED = LM_EVAL_TASKS.parent / "shared"
# lmms-eval logs a function's text, lm-eval its source.
_FUNCTION = re.compile(r"(?:<function |(?:@.*\n)*def )(\w+)")


def aggregations(config: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the metrics of one of this project's tasks, in order, each with the dotted name of its aggregation.

    The function that scores an answer identifies the task, so that variants with other names are recognised. The last
    metric counts the questions, and has a value for each.

    Args:
        config: the task's, as a harness logs it.

    Returns:
        None for any other task.
    """
    kind = _kind(config)
    return kind[1] if kind else None


def shared_file(config: Mapping[str, Any]) -> str | None:
    """Return the stem of the file in ``tasks/shared`` that scores a task; None for other projects' tasks.

    Args:
        config: as for `aggregations`.
    """
    kind = _kind(config)
    return kind[0] if kind else None


def recompute(task_run: TaskRun) -> dict[str, Any]:
    """Compute the task's metrics from its samples; omit those without a value, as the harness does.

    Raises:
        LmmsEgoplanError: the values in the samples are not those of the task.
    """
    metrics = {}
    for metric, name in (aggregations(task_run.config) or {}).items():
        values = [sample[metric] for sample in task_run.samples or () if metric in sample]
        if values:
            try:
                metrics[metric] = resolve_name(name)(values)
            except LmmsEgoplanError as error:
                raise LmmsEgoplanError(f"samples of {task_run.task}: {metric}: {error}") from error
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise LmmsEgoplanError(
                    f"samples of {task_run.task}: {metric} cannot be computed: {type(error).__name__}: {error}; were "
                    "they written by another version, or changed? Run again, or leave the samples out"
                ) from error
    return metrics


def check(run: Run, task_run: TaskRun) -> None:
    """Compare the harness's own scores with those from the samples, if there are samples.

    Numbers may differ by 1e-9 of their size; NaN equals NaN.

    Raises:
        LmmsEgoplanError: they differ, or only one has a metric; names the run's folder, the task and the first 20
            metrics with both values, the number of questions first.
    """
    names = list(aggregations(task_run.config) or ())
    if task_run.samples is None or not names:
        return
    recomputed = recompute(task_run)
    differences = [
        difference
        for metric in (names[-1], *names[:-1])
        for difference in _differences(metric, task_run.metrics.get(metric), recomputed.get(metric))
    ]
    if differences:
        raise LmmsEgoplanError(
            f"{run.folder}, run {run.name}, task {task_run.task}: the scores are not those of the "
            f"{len(task_run.samples)} samples:\n{listing(differences)}\n"
            "The file of samples is not whole, not of this run, or another version wrote it (the task's is "
            f"{task_run.version or 'unknown'}, here {package_versions().get(task_run.task, 'unknown')}): run again, or "
            f"move it away: {run.harness} --tasks {task_run.task} --model ... --output_path DIR --log_samples"
        )


@cache
def _kinds() -> dict[str, tuple[str, dict[str, str]]]:
    """Return the files in ``tasks/shared``, by the name of their scoring function: stem, and aggregations by metric.

    A harness logs only that name, so no two files may have the same.
    """
    tasks = {path.stem: read_task_file(path) for path in sorted(_SHARED.glob("*.yaml"))}
    return {
        task["process_results"].rpartition(".")[2]: (
            stem,
            {metric["metric"]: metric["aggregation"] for metric in task["metric_list"]},
        )
        for stem, task in tasks.items()
    }


def _kind(config: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    scoring = config.get("process_results")
    match = _FUNCTION.match(scoring) if isinstance(scoring, str) else None
    return _kinds().get(match[1]) if match else None


def _differences(name: str, logged: Any, recomputed: Any) -> Iterator[str]:
    """Describe differences between the harness's value and that from the samples; None for missing ones."""
    if isinstance(logged, dict) and isinstance(recomputed, dict):
        for key in logged | recomputed:
            yield from _differences(f"{name} of {key}", logged.get(key), recomputed.get(key))
    elif not _equal(logged, recomputed):
        yield f"{name}: {shown(logged)} in the results, {shown(recomputed)} from the samples"


def _equal(logged: Any, recomputed: Any) -> bool:
    if recomputed is None and isinstance(logged, float) and math.isnan(logged):
        return True  # Without samples, lm-eval on several processes logs NaN.
    if isinstance(logged, (int, float)) and isinstance(recomputed, (int, float)):
        both_nan = math.isnan(logged) and math.isnan(recomputed)
        return both_nan or math.isclose(logged, recomputed, rel_tol=_TOLERANCE)
    return logged == recomputed
