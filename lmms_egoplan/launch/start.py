"""Start a run: count its questions, run the harness, and write the report."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer
from loguru import logger
from rich.console import Console

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.prices import read_prices
from lmms_egoplan.judging.printing import print_steps
from lmms_egoplan.judging.usage import LlmOptions
from lmms_egoplan.launch.counts import (
    MEASURED,
    TaskCounts,
    asked_by_name,
    count_tasks,
    print_counts,
    used_steps,
)
from lmms_egoplan.launch.harness_run import LOG, JudgingProgress, run_harness
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.state import (
    STATE,
    read_events,
    read_state,
    read_stored,
    repeated_command,
    write_failure,
    write_state,
)
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.processes import exit_after, interrupt_children
from lmms_egoplan.report.build import Built, build_report
from lmms_egoplan.report.final_table import print_final_table
from lmms_egoplan.report.run import TaskRun
from lmms_egoplan.report.runs import read_scores
from lmms_egoplan.status_line import StatusLine
from lmms_egoplan.text import join_list

# Seconds that the harness has to end by itself.
_GRACE_S = 1.0
_MOST_NAMES = 5


def start(plan: Plan, prices: Path | None) -> None:
    """Run the harness and write the report, or write the script that does.

    After Ctrl-C or SIGTERM, print how to resume, and end the harness. Finished answers are stored.

    Args:
        plan: The run.
        prices: JSON file with prices of judges by model; None without prices.

    Raises:
        LmmsEgoplanError: A task's main metric is not a number, or the harness failed.
    """
    try:
        _start(plan, prices)
    except KeyboardInterrupt as interrupt:
        typer.echo(f"To resume, repeat: {repeated_command()}", err=True)
        interrupt_children(interrupt, _GRACE_S)
        exit_after(interrupt)


def _start(plan: Plan, prices: Path | None) -> None:
    with StatusLine() as status:
        status.begin("Counting questions")
        counts = count_tasks(plan)
        stored = read_stored(plan)
    print_counts(counts, stored)
    typer.echo(MEASURED)
    names = [STATE] if plan.script is None else [STATE, plan.script.name]
    with output_folder(plan.out, "run", names):
        if plan.script is not None:
            _write_script(plan, plan.script, counts)
            return
        typer.echo(f"\n$ {plan.render_command()}Its output goes to {plan.out / LOG}\n")
        with StatusLine() as status:
            _log_to(status)
            at_most = sum(task.judge_requests for task in counts)
            if stored is not None:
                at_most = max(0, at_most - stored.judgements)
            judging = JudgingProgress(at_most, read_prices(prices))
            results = evaluate(plan, counts, judging, status)
            built = _write_report(plan, results, status)
    for line in built.skipped:
        typer.echo(f"Skipped: {line}", err=True)
    state = read_state(plan.out)
    if state is not None:
        events = [event for event in read_events(plan.out) if event["time"] >= state.started]
        print_steps(used_steps(plan, events), LlmOptions(prices=read_prices(prices)))
    typer.echo(f"Report: {built.page}\n")
    print_final_table(built.sections, asked_by_name(counts), Console())


def _log_to(status: StatusLine) -> None:
    """Show this process's warnings above the status line."""
    logger.remove()
    logger.add(
        lambda message: status.print(f"Warning: {message.record['message']}"), level="WARNING"
    )


def _write_script(plan: Plan, path: Path, counts: Sequence[TaskCounts]) -> None:
    """Write the script that starts the run, and print how to start it."""
    write_state(plan, counts)
    write_whole(path, plan.render_script())
    how = "sbatch" if plan.launcher == "slurm" else "bash"
    typer.echo(f"Written to {path}. Start it with: {how} {shlex.quote(str(path))}")


def evaluate(
    plan: Plan, counts: Sequence[TaskCounts], judging: JudgingProgress, status: StatusLine
) -> list[Path]:
    """Run the harness, and return its results files. See `run_harness`.

    Raises:
        LmmsEgoplanError: A task's main metric is not a number, or the harness failed.
    """
    earlier = {*plan.results.rglob("*.json")}
    returncode = run_harness(plan, counts, judging, status)
    results = sorted({*plan.results.rglob("*.json")} - earlier)
    status.begin("Reading the results")
    failures = []
    missing = _without_score(plan, results)
    if missing:
        failures.append(f"no result of {join_list(missing, _MOST_NAMES)}")
    if returncode:
        failures.append(f"{plan.harness} exited with {returncode}")
    if failures:
        failure = "; ".join(failures)
        write_failure(plan.out, failure)
        raise LmmsEgoplanError(
            f"{failure}; its output is in {plan.out / LOG}. To resume, repeat the command"
        )
    return results


def _without_score(plan: Plan, results: Sequence[Path]) -> list[str]:
    """Return the tasks whose main metric is not a number in the results."""
    tasks: dict[str, TaskRun] = {}
    if results:
        for run in read_scores(results).runs:
            tasks |= run.tasks | run.other_tasks
    return [
        name
        for name, task in plan.leaves.items()
        if name not in tasks or tasks[name].number(task.metric) is None
    ]


def _write_report(plan: Plan, results: Sequence[Path], status: StatusLine) -> Built:
    """Write the report to the run's folder."""
    status.begin("Writing the report")

    def progress(step: str, done: int, total: int) -> None:
        status.update(f"{done} of {total} {step}")

    out = plan.out / "report"
    with output_folder(out, "report", ["index.html", "report.json"]):
        return build_report(results, out, {}, BENCHMARKS, progress)
