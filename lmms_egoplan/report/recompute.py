"""A run's scores once more, from its samples, with the functions that the tasks name."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
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
    """The metrics of a task of this project, in its order, each with the dotted name of its aggregation.

    What scores an answer tells which task it is, so that variants under other names are known too. The last metric
    counts the questions, and has a value for each.

    Args:
        config: the task's, as a harness logs it.

    Returns:
        None for any other task, and for those without a metric that the report shows.
    """
    kind = _kind(config)
    return _aggregations(kind[1]) if kind else None


def shared_file(config: Mapping[str, Any]) -> str | None:
    """The stem of the file in ``tasks/shared`` that scores a task; None for any task of another project.

    Args:
        config: as for `aggregations`.
    """
    kind = _kind(config)
    return kind[0].stem if kind else None


def recompute(task_run: TaskRun) -> dict[str, Any]:
    """The task's metrics from its samples; those that no sample has a value for are absent, as in the harness's own.

    Without samples, nothing.

    Raises:
        LmmsEgoplanError: the values in the samples are not those of the task.
    """
    found = {}
    for metric, name in (aggregations(task_run.config) or {}).items():
        values = [sample[metric] for sample in task_run.samples or () if metric in sample]
        if values:
            try:
                found[metric] = _function(name)(values)
            except LmmsEgoplanError as error:
                raise LmmsEgoplanError(f"samples of {task_run.task}: {metric}: {error}") from error
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise LmmsEgoplanError(
                    f"samples of {task_run.task}: {metric} cannot be computed: {type(error).__name__}: {error}; were "
                    "they written by another version, or changed? Run again, or leave the samples out"
                ) from error
    return found


def check(run: Run, task_run: TaskRun) -> None:
    """Compare the harness's own scores with those from the samples; without samples there is nothing to compare.

    Numbers may differ by 1e-9 of their size; NaN equals NaN.

    Raises:
        LmmsEgoplanError: they differ, or one has a metric that the other has not; names the run's folder, the task and
            the first 20 metrics with both values, the number of questions before all others.
    """
    own = list(aggregations(task_run.config) or ())
    if task_run.samples is None or not own:
        return
    found = recompute(task_run)
    differences = [
        difference
        for metric in (own[-1], *own[:-1])
        for difference in _differences(metric, task_run.metrics.get(metric), found.get(metric))
    ]
    if differences:
        raise LmmsEgoplanError(
            f"{run.folder}, run {run.name}, task {task_run.task}: the scores are not those of the "
            f"{len(task_run.samples)} samples:\n{listing(differences)}\n"
            "The file of samples is not whole, not of this run, or another version wrote it (the task's is "
            f"{task_run.version or 'unknown'}, here {package_versions().get(task_run.task, 'unknown')}): run again, or "
            f"move it away: {run.harness} --tasks {task_run.task} --model ... --output_path DIR --log_samples"
        )


def aggregation_lists(folder: Path) -> dict[str, dict[str, str]]:
    """The aggregations by metric, by the name of the function that scores an answer: that is all a harness logs of it.

    Args:
        folder: with the YAML files that tell, for each kind of task, ``process_results`` and ``metric_list``.

    Raises:
        LmmsEgoplanError: two files have scoring functions of one name, which logged samples would not tell apart.
    """
    return {name: _aggregations(task) for name, (_, task) in _kinds(folder).items()}


def _kinds(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """File and content of each kind of task, by the name of the function that scores an answer."""
    kinds: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.yaml")):
        task = read_task_file(path)
        name = task["process_results"].rpartition(".")[2]
        if name in kinds:
            raise LmmsEgoplanError(
                f"{kinds[name][0]} and {path}: both score with a function named {name}; give one another name"
            )
        kinds[name] = path, task
    return kinds


@cache
def _own_kinds() -> dict[str, tuple[Path, dict[str, Any]]]:
    return _kinds(_SHARED)


def _kind(config: Mapping[str, Any]) -> tuple[Path, dict[str, Any]] | None:
    """Of the task with this logged config."""
    scoring = config.get("process_results")
    match = _FUNCTION.match(scoring) if isinstance(scoring, str) else None
    return _own_kinds().get(match[1]) if match else None


def _aggregations(task: Mapping[str, Any]) -> dict[str, str]:
    return {metric["metric"]: metric["aggregation"] for metric in task["metric_list"]}


def _function(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def _differences(name: str, told: Any, found: Any) -> Iterator[str]:
    """What differs between the harness's value and that from the samples, None where there is none."""
    if isinstance(told, Mapping) and isinstance(found, Mapping):
        for key in told | found:
            yield from _differences(f"{name} of {key}", told.get(key), found.get(key))
    elif not _equal(told, found):
        yield f"{name}: {shown(told)} in the results, {shown(found)} from the samples"


def _equal(told: Any, found: Any) -> bool:
    if found is None and isinstance(told, float) and math.isnan(told):
        return True  # Of no sample; lm-eval on several processes sums that up to NaN.
    if isinstance(told, (int, float)) and isinstance(found, (int, float)):
        both_nan = math.isnan(told) and math.isnan(found)
        return both_nan or math.isclose(told, found, rel_tol=_TOLERANCE)
    return told == found
