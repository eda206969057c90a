"""Start a run: count its questions, run the harness, and write the report."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.prices import read_prices
from lmms_egoplan.judging.printing import print_steps
from lmms_egoplan.judging.usage import LlmOptions
from lmms_egoplan.launch.counts import MEASURED, TaskCounts, count_tasks, print_counts, used_steps
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.state import STATE, watch, write_state
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.report.run import TaskRun
from lmms_egoplan.report.runs import read_scores
from lmms_egoplan.report.write import write_report


def start(plan: Plan, prices: Path | None) -> None:
    """Run the harness and write the report, or write the script that does.

    Args:
        plan: The run.
        prices: JSON file with prices of judges by model; None without prices.

    Raises:
        LmmsEgoplanError: A task's main metric is not a number, or the harness failed.
    """
    counts = count_tasks(plan)
    print_counts(counts)
    typer.echo(MEASURED)
    names = [STATE] if plan.script is None else [STATE, plan.script.name]
    with output_folder(plan.out, "run", names):
        if plan.script is not None:
            _write_script(plan, plan.script, counts)
            return
        typer.echo(f"\n$ {plan.render_command()}")
        results, task_runs = evaluate(plan, counts)
        write_report(results, plan.out / "report")
        print_steps(used_steps(plan, task_runs, counts), LlmOptions(prices=read_prices(prices)))


def _write_script(plan: Plan, path: Path, counts: Sequence[TaskCounts]) -> None:
    """Write the script that starts the run, and print how to start it."""
    write_state(plan, counts)
    write_whole(path, plan.render_script())
    how = "sbatch" if plan.launcher == "slurm" else "bash"
    typer.echo(f"Written to {path}. Start it with: {how} {shlex.quote(str(path))}")


def evaluate(plan: Plan, counts: Sequence[TaskCounts]) -> tuple[list[Path], dict[str, TaskRun]]:
    """Run the harness, and return its results files and their tasks.

    Raises:
        LmmsEgoplanError: A task's main metric is not a number, or the harness failed.
    """
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
