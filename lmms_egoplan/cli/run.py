"""``lmms-egoplan run``: from a checkpoint to a report."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.harnesses.backends import find_backend
from lmms_egoplan.judging.asking import LlmUsage, MaxCost, MaxRequests, Prices
from lmms_egoplan.judging.limits import MAX_COST, MAX_REQUESTS, PRICES
from lmms_egoplan.launch.checks import argument_remarks, coverage_remarks, find_problems, gpu_memory
from lmms_egoplan.launch.counts import (
    TaskCounts,
    check_prices,
    count_tasks,
    print_counts,
    used_steps,
)
from lmms_egoplan.launch.plan import (
    DEFAULT_BACKENDS,
    VLLM_BACKENDS,
    Harness,
    Launcher,
    Plan,
    read_arguments,
)
from lmms_egoplan.launch.state import STATE, watch, write_state
from lmms_egoplan.launch.tasks import choose_tasks
from lmms_egoplan.model_names import short_name
from lmms_egoplan.options import OptionalOutFolder
from lmms_egoplan.outputs import output_folder

if TYPE_CHECKING:
    from lmms_egoplan.report.run import TaskRun

Value = TypeVar("Value")

_MEASURED = "Hours and price are measured on the first questions, and updated while the run works."


def run(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="Checkpoint: a folder or a name on the hub. For an API: the model's name.",
        ),
    ],
    benchmarks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Benchmark or task. Can be repeated, or a list with commas. Default: all "
            "prepared ones.",
        ),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="Published pipeline.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="The harness's backend, such as `hf_vlm`, `vllm_ranker` or `async_openai`."
        ),
    ] = None,
    model_args: Annotated[
        str,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Further arguments of the backend, such as `dtype=bfloat16`.",
        ),
    ] = "",
    harness: Annotated[Harness, typer.Option(help="Harness that runs the tasks.")] = "lmms-eval",
    folder: OptionalOutFolder = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of questions per task, to try a run.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="Compact run: at most this number of questions.")
    ] = None,
    target_width: Annotated[
        float | None, typer.Option(min=0.1, help="Compact run: width of the interval.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check what the run needs, without starting it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, then print the command or script.")
    ] = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
    launcher: Annotated[
        Launcher,
        typer.Option(
            help="How to start several processes. `slurm`, and several nodes, write a script."
        ),
    ] = "none",
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Processes or GPUs per node. Default: all GPUs of this machine."),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 1,
) -> None:
    """Run benchmarks on a model, from the check of everything it needs to the report.

    The command first checks data, checkpoint, arguments, judge, memory and disk, without loading
    weights, and names all problems at once. It then prints the numbers of questions, images and
    requests to judges, and the harness's command, runs it, and writes the report to `DIR/report`.
    Hours and price are measured on the first questions, and updated. To resume an interrupted run,
    repeat the command: answers in `DIR/cache` are reused. To watch it: `lmms-egoplan show DIR`. By
    default, `DIR` is `runs/` and the model's name.

    `--protocol NAME` asks, decodes and scores as a published pipeline does, such as `flageval`.
    `docs/comparing.md` lists the names.

    `--questions N` asks at most N questions: a random sample, the same for every model. Scores are
    estimates of those over all questions, and are marked as such. `--target-width 10` takes as many
    questions as an interval of 10 points needs. Without the option, the same folder is extended to
    a full run: `docs/running.md`.

    Options after `--` go to the harness unchanged.

    Example: `lmms-egoplan run Qwen/Qwen2.5-VL-7B-Instruct --benchmarks egoplan,egothink
    --model-args dtype=bfloat16 -- --batch_size 4`
    """
    names: list[str] = []
    for text in benchmarks or ():
        names += [name.strip() for name in text.split(",") if name.strip()]
    if not backend:
        backends = VLLM_BACKENDS if launcher == "vllm" else DEFAULT_BACKENDS
        backend = backends[harness]
    if not processes:
        processes = 1 if launcher == "none" else max(1, len(gpu_memory()))
    problems: list[str] = []
    known = _collected(problems, find_backend, harness, backend)
    arguments = _collected(problems, read_arguments, model_args)
    ranks = known is None or bool(known.ranks)
    tasks = _collected(problems, choose_tasks, harness, names, protocol, ranks=ranks)
    plan = Plan(
        model=model,
        backend_name=backend,
        model_args=arguments or {},
        harness=harness,
        tasks=tasks or [],
        limit=limit,
        launcher=launcher,
        processes=processes,
        nodes=nodes,
        options=context.args,
        protocol=protocol,
        subset=f"width={target_width:f}" if target_width else str(questions or ""),
        limits=_judge_limits(max_requests, max_cost, prices),
        out=folder or _default_folder(model),
    )
    if sum(option is not None for option in (limit, questions, target_width)) > 1:
        problems.append("--limit, --questions, --target-width: use only one of them")
    _collected(problems, _check_prices, plan, prices, max_cost)
    problems += find_problems(plan)
    if problems:
        raise LmmsEgoplanError("\n".join(dict.fromkeys(problems)))
    for remark in (*coverage_remarks(plan), *argument_remarks(plan)):
        typer.echo(remark, err=True)
    if check:
        print_counts(count_tasks(plan))
        typer.echo(f"Nothing is missing. {_MEASURED}")
        return
    text = plan.render_script() if plan.script else _command_line(plan)
    if dry_run:
        typer.echo(text, nl=False)
        return
    counts = count_tasks(plan)
    print_counts(counts)
    typer.echo(_MEASURED)
    names = [STATE] if plan.script is None else [STATE, plan.script.name]
    with output_folder(plan.out, "run", names):
        if plan.script is not None:
            write_state(plan, counts)
            write_whole(plan.script, text)
            how = "sbatch" if plan.launcher == "slurm" else "bash"
            typer.echo(
                f"Written to {plan.script}. Start it with: {how} {shlex.quote(str(plan.script))}"
            )
            return
        typer.echo(f"\n$ {text}")
        results, task_runs = _evaluate(plan, counts)
        from lmms_egoplan.report.write import write_report

        write_report(results, plan.out / "report")
        LlmUsage(prices=prices, steps=used_steps(plan, task_runs, counts)).print_cost()


def _judge_limits(
    max_requests: int | None, max_cost: float | None, prices: Path | None
) -> dict[str, str]:
    """Return the variables that limit the requests to judges, or let the log state their price."""
    limits = {}
    if max_requests is not None:
        limits[MAX_REQUESTS] = str(max_requests)
    if max_cost is not None:
        limits[MAX_COST] = str(max_cost)
    if prices is not None:
        limits[PRICES] = str(prices.absolute())
    return limits


def _check_prices(plan: Plan, prices: Path | None, max_cost: float | None) -> None:
    """Check the file of prices, and that it has the judges of the tasks.

    Raises:
        LmmsEgoplanError: The file is missing, malformed or incomplete.
    """
    check_prices(plan, LlmUsage(prices=prices, max_cost=max_cost))


def _default_folder(model: str) -> Path:
    """Return the folder of a run without ``--out``."""
    name = re.sub(r"[^\w.-]+", "-", short_name(model)).strip("-")
    return Path("runs", name or "run")


def _command_line(plan: Plan) -> str:
    """Return the line that starts the run in a shell."""
    variables = [f"{name}={value}" for name, value in plan.environment().items()]
    return shlex.join([*variables, *plan.command()]) + "\n"


def _collected(
    problems: list[str], function: Callable[..., Value], *args: Any, **kwargs: Any
) -> Value | None:
    """Call a function. Add its error to the problems, and return None then."""
    try:
        return function(*args, **kwargs)
    except LmmsEgoplanError as error:
        problems.append(str(error))
        return None


def _evaluate(plan: Plan, counts: Sequence[TaskCounts]) -> "tuple[list[Path], dict[str, TaskRun]]":
    """Run the harness, and return its results files and their tasks.

    Raises:
        LmmsEgoplanError: A task's main metric is not a number, or the harness failed.
    """
    from lmms_egoplan.report.runs import read_scores

    earlier = {*plan.results.rglob("*.json")}
    with subprocess.Popen(plan.command(), env=os.environ | plan.environment()) as process:
        watch(plan.out, write_state(plan, counts, process.pid), process)
    results = sorted({*plan.results.rglob("*.json")} - earlier)
    tasks: dict[str, TaskRun] = {}
    if results:
        for result in read_scores(results).runs:
            tasks |= result.tasks | result.other_tasks
    missing = [
        name
        for name, task in plan.leaves.items()
        if name not in tasks or tasks[name].number(task.metric) is None
    ]
    failures = []
    if missing:
        failures.append(f"no result of {', '.join(missing)}")
    if process.returncode:
        failures.append(f"{plan.harness} exited with {process.returncode}")
    if failures:
        raise LmmsEgoplanError(
            f"{'; '.join(failures)}; see the messages above. To resume, repeat the command"
        )
    return results, tasks
