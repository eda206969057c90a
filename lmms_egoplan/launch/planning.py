"""Make the plan of a run from the options of ``lmms-egoplan run``, and name all its problems."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.backends import find_backend
from lmms_egoplan.judging.prices import read_prices
from lmms_egoplan.judging.usage import LlmOptions
from lmms_egoplan.judging.variables import MAX_COST, MAX_REQUESTS, PRICES
from lmms_egoplan.launch.checks import find_problems
from lmms_egoplan.launch.counts import check_prices
from lmms_egoplan.launch.machine import gpu_memory
from lmms_egoplan.launch.plan import (
    DEFAULT_BACKENDS,
    VLLM_BACKENDS,
    Harness,
    Launcher,
    Plan,
    read_arguments,
)
from lmms_egoplan.launch.tasks import choose_tasks
from lmms_egoplan.model_names import short_name

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of ``lmms-egoplan run``, as they are typed.

    Attributes:
        model: Checkpoint, or name of the model at an API.
        benchmarks: Names of benchmarks and tasks, also several with commas; none for all prepared
            benchmarks.
        protocol: Name of a preset; None for the benchmarks' own protocols.
        backend: Value of ``--model``; None for the default one.
        model_args: Further arguments of the backend, ``name=value,name=value``.
        harness: ``lmms-eval`` or ``lm-eval``.
        folder: Folder of the run; None for the default one.
        limit: Maximum number of questions per task.
        questions: Number of questions of a compact run.
        target_width: Width of the interval of a compact run.
        prices: JSON file with prices of judges by model.
        max_requests: Maximum number of requests to judges.
        max_cost: Maximum cost of judges.
        launcher: How to start several processes.
        processes: Number of processes or GPUs per node; None for all GPUs of this machine.
        nodes: Number of nodes.
        harness_options: Further options for the harness.
    """

    model: str
    benchmarks: Sequence[str]
    protocol: str | None
    backend: str | None
    model_args: str
    harness: Harness
    folder: Path | None
    limit: int | None
    questions: int | None
    target_width: float | None
    prices: Path | None
    max_requests: int | None
    max_cost: float | None
    launcher: Launcher
    processes: int | None
    nodes: int
    harness_options: Sequence[str]


def checked_plan(options: RunOptions) -> Plan:
    """Return the plan of a run, in which nothing is missing.

    Raises:
        LmmsEgoplanError: Something is missing or wrong. The message has a line for each problem.
    """
    problems: list[str] = []
    plan = _make_plan(options, problems)
    chosen = (options.limit, options.questions, options.target_width)
    if sum(option is not None for option in chosen) > 1:
        problems.append("--limit, --questions, --target-width: use only one of them")
    _collected(problems, _check_prices, plan, options)
    problems += find_problems(plan)
    if problems:
        raise LmmsEgoplanError("\n".join(dict.fromkeys(problems)))
    return plan


def _make_plan(options: RunOptions, problems: list[str]) -> Plan:
    """Make the plan. Add what is wrong with the options to the problems."""
    names: list[str] = []
    for text in options.benchmarks:
        names += [name.strip() for name in text.split(",") if name.strip()]
    words = [*takewhile(lambda word: not word.startswith("-"), options.harness_options)]
    if words:
        problems.append(
            f"{' '.join(words)}: does not belong to an option; separate the names of benchmarks "
            f"with commas: --benchmarks {','.join([*names, *words])}"
        )
    backend = options.backend
    if not backend:
        backends = VLLM_BACKENDS if options.launcher == "vllm" else DEFAULT_BACKENDS
        backend = backends[options.harness]
    processes = options.processes
    if not processes:
        processes = 1 if options.launcher == "none" else max(1, len(gpu_memory()))
    known = _collected(problems, find_backend, options.harness, backend)
    arguments = _collected(problems, read_arguments, options.model_args)
    ranks = known is None or bool(known.ranks)
    tasks = _collected(
        problems, choose_tasks, options.harness, names, options.protocol, ranks=ranks
    )
    if options.target_width:
        subset = f"width={options.target_width:f}"
    else:
        subset = str(options.questions or "")
    return Plan(
        model=options.model,
        backend_name=backend,
        model_args=arguments or {},
        harness=options.harness,
        tasks=tasks or [],
        limit=options.limit,
        launcher=options.launcher,
        processes=processes,
        nodes=options.nodes,
        options=options.harness_options[len(words) :],
        protocol=options.protocol,
        subset=subset,
        limits=_judge_limits(options),
        out=options.folder or _default_folder(options.model),
    )


def _judge_limits(options: RunOptions) -> dict[str, str]:
    """Return the variables that limit the requests to judges, or let the log state their price."""
    limits = {}
    if options.max_requests is not None:
        limits[MAX_REQUESTS] = str(options.max_requests)
    if options.max_cost is not None:
        limits[MAX_COST] = str(options.max_cost)
    if options.prices is not None:
        limits[PRICES] = str(options.prices.absolute())
    return limits


def _check_prices(plan: Plan, options: RunOptions) -> None:
    """Check the file of prices, and that it has the judges of the tasks.

    Raises:
        LmmsEgoplanError: The file is missing, malformed or incomplete.
    """
    check_prices(plan, LlmOptions(prices=read_prices(options.prices), max_cost=options.max_cost))


def _default_folder(model: str) -> Path:
    """Return the folder of a run without ``--out``."""
    name = re.sub(r"[^\w.-]+", "-", short_name(model)).strip("-")
    return Path("runs", name or "run")


def _collected(
    problems: list[str], function: Callable[..., Value], *args: Any, **kwargs: Any
) -> Value | None:
    """Call a function. Add its error to the problems, and return None then."""
    try:
        return function(*args, **kwargs)
    except LmmsEgoplanError as error:
        problems.append(str(error))
        return None
