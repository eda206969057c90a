"""Look up this package's tasks in their YAML files, without importing a harness."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from loguru import logger

from lmms_egoplan.benchmarks.base import BENCHMARKS, Benchmark, Judge, load_judge
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.task_files import (
    benchmark_folder,
    is_group,
    is_ranked,
    judge_name,
    main_metric,
    preset_name,
    preset_tasks,
    read_task_file,
    scores_end_token,
    task_paths,
)


@dataclass(frozen=True)
class Task:
    """A task that asks questions, not a group.

    Attributes:
        name: Value of ``--tasks``.
        benchmark: Its benchmark.
        split: Its split of the prepared data.
        ranks: True if the model ranks choices by likelihood instead of writing an answer.
        scores_end_token: True if the token that ends an answer is scored with each choice.
        metric: Its main metric.
        judge: Its judge; None without one.
        path: Its YAML file for lmms-eval, which defines what the model is shown in both harnesses.
    """

    name: str
    benchmark: Benchmark
    split: str
    ranks: bool
    scores_end_token: bool
    metric: str
    judge: Judge | None
    path: Path


def choose_tasks(
    harness: str, names: Sequence[str], preset: str | None = None, *, ranks: bool
) -> list[str]:
    """Return the tasks and groups of benchmarks, tasks and groups.

    Without names, return those of all prepared benchmarks.

    Args:
        harness: ``lmms-eval`` or ``lm-eval``.
        names: Names or titles of benchmarks, and names of tasks and groups. With a preset, only
            benchmarks.
        preset: Name of a preset. A benchmark then means its tasks that follow it. Prepared
            benchmarks without it are logged if there are no names.
        ranks: True if the backend ranks. If not, a benchmark means its tasks with written answers.

    Raises:
        LmmsEgoplanError: A name or the preset is unknown, a benchmark does not have the preset, or
            there are no names and no benchmark is prepared.
    """
    known = task_paths(harness)
    names = [name if name in known else _benchmark_name(name) for name in names]
    if preset is None:
        suites = _own_protocols(harness, ranks=ranks)
    else:
        suites = _of_preset(harness, names, preset)
    if not names:
        names = _prepared_benchmarks(suites, preset)
    tasks: list[str] = []
    for name in names:
        if name not in suites and name not in known:
            hint = _hint(name, [*suites], [*suites, *known])
            raise LmmsEgoplanError(
                f"--benchmarks {name}: no such benchmark or task for {harness}; {hint}"
            )
        tasks += suites.get(name, [name])
    return list(dict.fromkeys(tasks))


def _benchmark_name(name: str) -> str:
    """Return the name of the benchmark with this name or title; any other name unchanged.

    Only letters and digits count. A title may end in "Bench", as in the papers.
    """
    letters = _letters(name)
    for benchmark in BENCHMARKS:
        title = _letters(benchmark.title)
        if letters in (_letters(benchmark.name), title, f"{title}bench"):
            return benchmark.name
    return name


def _letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return "".join(character for character in text.lower() if character.isalnum())


def _own_protocols(harness: str, *, ranks: bool) -> dict[str, list[str]]:
    """Return the tasks with the benchmarks' own protocols, by benchmark."""
    suites = {}
    for benchmark in BENCHMARKS:
        suites[benchmark.name] = [
            task for task in benchmark.suite if ranks or not _ranks(harness, task)
        ]
    return suites


def _prepared_benchmarks(suites: Mapping[str, list[str]], preset: str | None) -> list[str]:
    """Return the names of the prepared benchmarks that have tasks, and log the others.

    Raises:
        LmmsEgoplanError: There are none.
    """
    names = []
    skipped = []
    for benchmark in BENCHMARKS:
        if benchmark.why_unprepared():
            continue
        if benchmark.name in suites:
            names.append(benchmark.name)
        else:
            skipped.append(benchmark.title)
    if skipped:
        logger.warning(f"--protocol {preset}: skipping {', '.join(skipped)}, without this preset")
    if not names:
        raise LmmsEgoplanError(
            f"data: prepare one of {', '.join(suites)}: lmms-egoplan data prepare --help"
        )
    return names


def _hint(name: str, benchmarks: Sequence[str], known: Sequence[str]) -> str:
    """Return what to do instead of using an unknown name."""
    similar = get_close_matches(name.lower(), dict.fromkeys(known), n=3)
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    return f"use one of {', '.join(benchmarks)}, or a task"


def _of_preset(harness: str, names: Iterable[str], preset: str) -> dict[str, list[str]]:
    """Return the tasks that follow a preset, by benchmark, after a check of the names."""
    tasks: dict[str, dict[str, list[str]]] = {}
    for benchmark in BENCHMARKS:
        tasks[benchmark.name] = {}
    for task in preset_tasks(harness):
        tasks[task.benchmark][task.preset] = [task.name]
    _check_preset(preset, tasks)
    for name in names:
        if preset in tasks.get(name, {}):
            continue
        has = "is no benchmark"
        if name in tasks:
            has = f"has {', '.join(tasks[name]) or 'no preset'}"
        raise LmmsEgoplanError(
            f"--benchmarks {name}: not possible with --protocol {preset}: {name} {has}"
        )
    return {name: presets[preset] for name, presets in tasks.items() if preset in presets}


def _check_preset(preset: str, tasks: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Check that a benchmark has this preset.

    Raises:
        LmmsEgoplanError: None has it.
    """
    presets: set[str] = set()
    for presets_of_benchmark in tasks.values():
        presets.update(presets_of_benchmark)
    if preset in presets:
        return
    closest_first = get_close_matches(preset, sorted(presets), n=len(presets), cutoff=0)
    raise LmmsEgoplanError(
        f"--protocol {preset}: no such preset; use one of {', '.join(closest_first)}"
    )


def leaf_tasks(harness: str, names: Iterable[str]) -> dict[str, Task]:
    """Return the tasks that ask questions, by name: those of groups, and all others."""
    leaves = {}
    for name in names:
        for task in _leaves(harness, name):
            leaves[task.name] = task
    return leaves


def _ranks(harness: str, name: str) -> bool:
    return all(task.ranks for task in _leaves(harness, name))


def _leaves(harness: str, name: str) -> Iterator[Task]:
    path = task_paths(harness)[name]
    content = read_task_file(path)
    if is_group(content):
        for member in content["task"]:
            yield from _leaves(harness, member)
        return
    folder = benchmark_folder(path)
    benchmark = next(benchmark for benchmark in BENCHMARKS if benchmark.name == folder.name)
    judge = judge_name(content)
    yield Task(
        name=name,
        benchmark=benchmark,
        split=content["test_split"],
        ranks=is_ranked(content),
        scores_end_token=scores_end_token(content),
        metric=main_metric(content),
        judge=load_judge(judge, preset_name(content)) if judge else None,
        path=task_paths("lmms-eval").get(name, path),
    )
