"""A run's scores, recomputed from its samples by the functions that the tasks name."""

import math
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.report.run import Run, Scoring, TaskRun
from lmms_egoplan.report.task_versions import base_task, package_benchmarks, package_versions, read_task_file
from lmms_egoplan.validation import listing, shown

# Sums of floats in another order differ in the last digits.
_TOLERANCE = 1e-9
_SHARED = LM_EVAL_TASKS.parent / "shared"


def scoring_of(task: str, config: Any, metrics: Collection[str]) -> Scoring | None:
    """Return how one of this project's tasks is scored; None for any other task.

    The task's metadata name the benchmark. Results of earlier versions do not have it: a task with the name of one of
    this package's, or a name that extends one, is of the same benchmark. The benchmark's file with the most metrics in
    common scores the task.

    Args:
        config: the task's, as a harness logs it.
        metrics: names of the task's metrics.
    """
    if not isinstance(config, Mapping):
        return None
    metadata = config.get("metadata")
    named = metadata.get("benchmark") if isinstance(metadata, Mapping) else None
    benchmark = named or package_benchmarks().get(base_task(task) or "")
    fitting = [scoring for scoring in scorings() if scoring.benchmark == benchmark]
    return max(fitting, key=lambda scoring: len(scoring.metrics.keys() & metrics), default=None)


@cache
def scorings() -> tuple[Scoring, ...]:
    """Read the files in ``tasks/shared``."""
    tasks = {path.stem: read_task_file(path) for path in sorted(_SHARED.glob("*.yaml"))}
    return tuple(
        Scoring(
            stem,
            task["metadata"]["benchmark"],
            {metric["metric"]: metric["aggregation"] for metric in task["metric_list"]},
        )
        for stem, task in tasks.items()
    )


def recompute(task_run: TaskRun) -> dict[str, Any]:
    """Compute the task's metrics from its samples; omit those without a value, as the harness does.

    Raises:
        LmmsEgoplanError: the values in the samples are not those of the task.
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
    names = list(task_run.scoring.metrics if task_run.scoring else ())
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
