"""Look up this package's tasks in their YAML files, without importing a harness."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import NamedTuple

from loguru import logger

from lmms_egoplan.benchmarks.registry import BENCHMARKS, Benchmark, Judge
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import TASK_FOLDERS
from lmms_egoplan.report.run import read_task_file


class Task(NamedTuple):
    """A task that asks questions, not a group.

    Attributes:
        name: Value of ``--tasks``.
        benchmark: Its benchmark.
        split: Its split of the prepared data.
        ranks: Whether the model ranks choices by likelihood instead of writing an answer.
        metric: Its main metric.
        judges: Its judges; empty without a judge.
        path: Its YAML file for lmms-eval, which defines what the model is shown in both harnesses.
    """

    name: str
    benchmark: Benchmark
    split: str
    ranks: bool
    metric: str
    judges: tuple[Judge, ...]
    path: Path


def choose_tasks(
    harness: str, names: Sequence[str], preset: str | None = None, *, ranks: bool
) -> list[str]:
    """Return the tasks and groups of benchmarks, tasks and groups; without names, those of all
    prepared benchmarks.

    Args:
        harness: ``lmms-eval`` or ``lm-eval``.
        names: Names of benchmarks, tasks and groups. With a preset, only names of benchmarks.
        preset: Name of a preset. A benchmark then means its tasks that follow it. Prepared
            benchmarks without it are logged if there are no names.
        ranks: Whether the backend ranks. If not, a benchmark means its tasks with written answers.

    Raises:
        LmmsEgoplanError: A name or the preset is unknown, a benchmark does not have the preset, or
            there are no names and no benchmark is prepared.
    """
    suites = {
        benchmark.name: [task for task in benchmark.suite if ranks or not _ranks(harness, task)]
        for benchmark in BENCHMARKS
    }
    if preset is not None:
        suites = _of_preset(harness, names, preset)
    if not names:
        prepared = [
            benchmark
            for benchmark in BENCHMARKS
            if benchmark.suite and not benchmark.why_unprepared()
        ]
        if skipped := [benchmark.title for benchmark in prepared if benchmark.name not in suites]:
            logger.warning(
                f"--protocol {preset}: skipping {', '.join(skipped)}, without this preset"
            )
        names = [benchmark.name for benchmark in prepared if benchmark.name in suites]
        if not names:
            raise LmmsEgoplanError(
                f"data: prepare one of {', '.join(suites)}: lmms-egoplan data prepare --help"
            )
    known = _files(harness)
    for name in names:
        if name not in suites and name not in known:
            near = get_close_matches(name, [*suites, *known], n=3)
            hint = (
                f"did you mean {' or '.join(near)}?"
                if near
                else f"use one of {', '.join(suites)}, or a task"
            )
            raise LmmsEgoplanError(
                f"--benchmarks {name}: no such benchmark or task for {harness}; {hint}"
            )
    return list(dict.fromkeys(task for name in names for task in suites.get(name, [name])))


def _of_preset(harness: str, names: Iterable[str], preset: str) -> dict[str, list[str]]:
    """Return the tasks that follow a preset, by benchmark, after a check of the names."""
    tasks = {
        benchmark.name: {name: [*benchmark.suite] for name in benchmark.presets}
        for benchmark in BENCHMARKS
    }
    for benchmark, _, name in (task.partition("__") for task in _files(harness) if "__" in task):
        tasks[benchmark][name] = [f"{benchmark}__{name}"]
    if preset not in (known := sorted({name for presets in tasks.values() for name in presets})):
        closest_first = get_close_matches(preset, known, n=len(known), cutoff=0)
        raise LmmsEgoplanError(
            f"--protocol {preset}: no such preset; use one of {', '.join(closest_first)}"
        )
    for name in names:
        if preset not in tasks.get(name, {}):
            has = (
                f"has {', '.join(tasks[name]) or 'no preset'}"
                if name in tasks
                else "is no benchmark"
            )
            raise LmmsEgoplanError(
                f"--benchmarks {name}: not possible with --protocol {preset}: {name} {has}"
            )
    return {name: presets[preset] for name, presets in tasks.items() if preset in presets}


def leaf_tasks(harness: str, names: Iterable[str]) -> dict[str, Task]:
    """Return the tasks that ask questions, by name: those of groups, and all others."""
    return {task.name: task for name in names for task in _leaves(harness, name)}


def _ranks(harness: str, name: str) -> bool:
    return all(task.ranks for task in _leaves(harness, name))


def _leaves(harness: str, name: str) -> Iterator[Task]:
    path = _files(harness)[name]
    content = read_task_file(path)
    if "group" in content:
        for member in content["task"]:
            yield from _leaves(harness, member)
        return
    benchmark = next(benchmark for benchmark in BENCHMARKS if benchmark.name == path.parent.name)
    yield Task(
        name,
        benchmark,
        content["test_split"],
        ranks=content["output_type"] == "multiple_choice",
        metric=content["metric_list"][0]["metric"],
        judges=tuple(benchmark.load_judges({path.name, path.parent.name})),
        path=_files("lmms-eval").get(name, path),
    )


@cache
def _files(harness: str) -> dict[str, Path]:
    """Return the YAML file of each task and group."""
    paths = (
        path
        for path in sorted(TASK_FOLDERS[harness].glob("*/*.yaml"))
        if not path.name.startswith("_")
    )
    return {path.stem: path for path in paths}
