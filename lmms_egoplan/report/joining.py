"""Join the results files of one model to one run, whatever command or machine they come from."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member
from lmms_egoplan.report.comparability import generation_arguments
from lmms_egoplan.report.identity import contradictions
from lmms_egoplan.report.run import Run, TaskRun

# Numbers of two runs that differ by less are equal.
_TOLERANCE = 1e-9
# Metadata of a task that say what was asked.
_ASKED = ("asked_as", "preset", "shortcut", "pixels", "subset", "num_frames", "max_frames")
_JUDGE = ("judge_model", "judge_protocol")

_Value = TypeVar("_Value")


def join_runs(runs: Mapping[Path, Run], names: Mapping[Path, str]) -> dict[Path, Run]:
    """Join the runs of one model.

    Runs with a chosen name join the others of this name. Runs without one join those with an equal
    `Run.checkpoint`, named or not; a run whose weights are not known stays alone.

    Runs do not join if a task contradicts:

    - Both have the task, with other questions, prepared data, version, decoding or preset, or with
      another judge or other scores. A task without a score has no judge.
    - Both have tasks with one scoring, which may be averaged, with other judges, other prompts, or
      only one of them with a limit or a subset of questions.

    Of an equal task, that of the newest run with a score and samples is kept. Tasks of other
    projects contradict nothing.

    Runs with a chosen name come first, and among these as among the others whole runs before those
    with ``--limit`` or a subset, and the newest first. Each joins the first of the earlier ones
    that it does not contradict. So of three runs A and B of one task, with different scores, and C
    of another, C joins the newer one of A and B.

    Args:
        runs: The runs by results file.
        names: Chosen names by results file.

    Returns:
        The joined runs in the order of `runs`, each by one of its results files: the first one
        with a chosen name, if there is any.

    Raises:
        LmmsEgoplanError: Two runs have one chosen name, but their recorded identities contradict.
    """
    _check_names(runs, names)
    groups: list[list[Path]] = []
    for path in _in_order(runs, names):
        group = _group_of(path, runs, names, groups)
        if group is None:
            groups.append([path])
        else:
            group.append(path)
    positions = {path: position for position, path in enumerate(runs)}
    joined = {}
    for group in sorted(groups, key=lambda group: min(positions[path] for path in group)):
        first = min(group, key=lambda path: (path not in names, positions[path]))
        joined[first] = _joined([runs[path] for path in group])
    return joined


def _check_names(runs: Mapping[Path, Run], names: Mapping[Path, str]) -> None:
    """Check that runs with the same chosen name have identities that do not contradict."""
    by_name: dict[str, list[Run]] = {}
    for path, name in names.items():
        by_name.setdefault(name, []).append(runs[path])
    for name, of_name in by_name.items():
        for first, second in combinations(of_name, 2):
            lines = contradictions(first.identity, second.identity)
            if lines:
                raise LmmsEgoplanError(
                    f"--name {name}: {first.folder} and {second.folder} are not one model under "
                    f"equal conditions: {'; '.join(lines)}. Give them different names."
                )


def _in_order(runs: Mapping[Path, Run], names: Mapping[Path, str]) -> list[Path]:
    """Return the paths of runs in the order in which they look for a run to join."""
    newest_first = sorted(runs, key=lambda path: (runs[path].time, str(path)), reverse=True)
    return sorted(
        newest_first, key=lambda path: (path not in names, not _asks_all_questions(runs[path]))
    )


def _asks_all_questions(run: Run) -> bool:
    is_subset = any(member(task.config, "metadata", "subset") for task in run.tasks.values())
    return "limit" not in run.provenance and not is_subset


def _group_of(
    path: Path, runs: Mapping[Path, Run], names: Mapping[Path, str], groups: Iterable[list[Path]]
) -> list[Path] | None:
    """Return the group that a run joins; None if there is none."""
    for group in groups:
        group_names = {names[other] for other in group if other in names}
        if path in names:
            is_one_model = names[path] in group_names
        else:
            checkpoint = runs[path].checkpoint
            is_one_model = checkpoint != "" and any(
                runs[other].checkpoint == checkpoint for other in group
            )
        if is_one_model and not any(_contradict(runs[path], runs[other]) for other in group):
            return group
    return None


def _contradict(first: Run, second: Run) -> bool:
    """Return true if a task excludes that two runs of one model are one row."""
    for task, task_run in first.tasks.items():
        if task in second.tasks and not _is_equal(task_run, second.tasks[task]):
            return True
    asked = _asked_by_scoring(first)
    return any(
        asked.get(kind, of_kind) != of_kind for kind, of_kind in _asked_by_scoring(second).items()
    )


def _is_equal(first: TaskRun, second: TaskRun) -> bool:
    """Return true if one task was asked alike in two runs, with equal scores or without one's."""
    if _conditions(first, second) != _conditions(second, first):
        return False
    if _score(first) is None or _score(second) is None:
        return True
    has_one_judge = all(first.metrics.get(name) == second.metrics.get(name) for name in _JUDGE)
    return has_one_judge and _has_equal_numbers(first, second)


def _score(task_run: TaskRun) -> float | None:
    """Return the main score of a task; None without a score."""
    metric = member(task_run.config, "metadata", "main_metric")
    if metric is None and task_run.scoring is not None:
        metric = next(iter(task_run.scoring.metrics))
    return task_run.number(str(metric))


def _conditions(task_run: TaskRun, other: TaskRun) -> dict[str, Any]:
    """Return what must be equal in another run of a task.

    The prepared data count if both results have their fingerprint.
    """
    metadata = task_run.config.get("metadata") or {}
    conditions = {name: metadata.get(name) for name in _ASKED}
    data = (metadata.get("data"), member(other.config, "metadata", "data"))
    count = task_run.number(task_run.scoring.count) if task_run.scoring else None
    return conditions | {
        "version": task_run.version,
        "data": data[0] if None not in data else None,
        "decoding": generation_arguments(task_run.config),
        "questions": count,
    }


def _has_equal_numbers(first: TaskRun, second: TaskRun) -> bool:
    """Compare the metrics that two runs of a task have in common."""
    names = first.metrics.keys() & second.metrics.keys()
    if first.scoring is not None:
        names &= first.scoring.metrics.keys()
    for name in names:
        number = first.number(name)
        other = second.number(name)
        if number is None or other is None:
            continue
        if not math.isclose(number, other, rel_tol=_TOLERANCE):
            return False
    return True


def _asked_by_scoring(run: Run) -> dict[tuple[Any, ...], set[tuple[Any, ...]]]:
    """Return how tasks with scores were asked and judged, by scoring, condition and preset.

    It must be equal in two runs whose tasks may be averaged, such as the parts of one benchmark.
    """
    by_scoring: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
    for task_run in run.tasks.values():
        if task_run.scoring is None or _score(task_run) is None:
            continue
        metadata = task_run.config.get("metadata") or {}
        kind = (task_run.scoring.name, metadata.get("shortcut"), metadata.get("asked_as"))
        texts = [task_run.metrics.get(name) for name in (*_JUDGE, "prompts")]
        asked = (*texts, json.dumps(metadata.get("subset")), "limit" in run.provenance)
        by_scoring.setdefault(kind, set()).add(asked)
    return by_scoring


def _joined(runs: Sequence[Run]) -> Run:
    """Join runs that do not contradict each other; a single run does not change."""
    if len(runs) == 1:
        return runs[0]
    newest_first = sorted(runs, key=lambda run: run.time, reverse=True)
    newest = newest_first[0]
    parts = _parts(newest_first)
    tasks: dict[str, TaskRun] = {}
    other_tasks: dict[str, TaskRun] = {}
    files: dict[str, Path] = {}
    for part in parts:
        tasks |= part.tasks
        other_tasks |= part.other_tasks
        files |= part.files
    identity = next((run.identity for run in newest_first if run.checkpoint), newest.identity)
    return replace(
        newest,
        harness=_listed((run.harness for run in newest_first), ", "),
        tasks=tasks,
        other_tasks=other_tasks,
        provenance=_provenance(newest_first),
        files=files,
        record=_record(parts),
        identity=identity,
        parts=tuple(parts),
    )


def _parts(newest_first: Sequence[Run]) -> list[Run]:
    """Return the runs, each with only the tasks that it contributes.

    Of equal tasks, the newest with a score and samples counts, or the newest with a score.
    """
    origin: dict[str, int] = {}
    for task in dict.fromkeys(
        task for run in newest_first for task in (*run.tasks, *run.other_tasks)
    ):
        with_task = [
            position
            for position, run in enumerate(newest_first)
            if task in run.tasks or task in run.other_tasks
        ]
        origin[task] = min(with_task, key=partial(_lacks, newest_first, task))
    parts = []
    for position, run in enumerate(newest_first):
        parts.append(
            replace(
                run,
                tasks=_only(run.tasks, origin, position),
                other_tasks=_only(run.other_tasks, origin, position),
                files=_only(run.files, origin, position),
            )
        )
    return parts


def _lacks(runs: Sequence[Run], task: str, position: int) -> tuple[bool, bool]:
    """Return whether a run has no score and no samples of a task."""
    run = runs[position]
    has_score = task not in run.tasks or _score(run.tasks[task]) is not None
    return not has_score, task not in run.files


def _only(
    by_task: Mapping[str, _Value], origin: Mapping[str, int], position: int
) -> dict[str, _Value]:
    """Return the entries of the tasks that come from the run at a position."""
    return {task: value for task, value in by_task.items() if origin.get(task) == position}


def _provenance(runs: Sequence[Run]) -> dict[str, str]:
    """Return the details that the runs share; others joined by semicolons."""
    names = dict.fromkeys(name for run in runs for name in run.provenance)
    return {
        name: _listed((run.provenance[name] for run in runs if name in run.provenance), "; ")
        for name in names
    }


def _record(parts: Sequence[Run]) -> dict[str, Any]:
    """Return the settings of the newest run that has a record, and the counts of all tasks."""
    record: dict[str, Any] = {}
    tasks: dict[str, Any] = {}
    for part in parts:
        record = record or dict(part.record)
        counts = part.record.get("tasks")
        if isinstance(counts, Mapping):
            tasks |= {task: counts[task] for task in part.tasks if task in counts}
    return {**record, "tasks": tasks} if record else record


def _listed(texts: Iterable[str], separator: str) -> str:
    return separator.join(dict.fromkeys(texts))
