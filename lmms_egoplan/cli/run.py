"""``lmms-egoplan run``: from a checkpoint to a report."""

from itertools import takewhile
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.options import MaxCost, MaxRequests, Prices
from lmms_egoplan.options import OptionalOutFolder

# The option whose values add up.
_REPEATABLE = "--benchmarks"
# Seconds before a step is named.
_SILENT_S = 1.0


class RunCommand(TyperCommand):
    """``run``: it knows the options of the harnesses, which must follow ``--``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            LmmsEgoplanError: An option of a harness comes before ``--``, or an option of this
                command is given twice.
        """
        own_names: set[str] = set()
        for parameter in self.get_params(ctx):
            own_names.update(parameter.opts)
        given_names: set[str] = set()
        for word in takewhile(lambda word: word != "--", args):
            name = word.partition("=")[0]
            if name in given_names and name != _REPEATABLE:
                raise LmmsEgoplanError(f"{name}: given twice; keep one")
            if name in own_names:
                given_names.add(name)
            elif name.startswith("-"):
                _reject_harness_option(name)
        return super().parse_args(ctx, args)


def _reject_harness_option(name: str) -> None:
    """Raise `LmmsEgoplanError` if an option belongs to a harness."""
    from lmms_egoplan.launch.harness_options import option_names

    if name in option_names("lmms-eval") + option_names("lm-eval"):
        raise LmmsEgoplanError(
            f"{name}: is an option of the harness; put it after --, at the end: -- {name} VALUE"
        )


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
    harness: Annotated[
        Literal["lmms-eval", "lm-eval"], typer.Option(help="Harness that runs the tasks.")
    ] = "lmms-eval",
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
        Literal["none", "torchrun", "accelerate", "vllm", "slurm"],
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
    from lmms_egoplan.launch.checks import argument_remarks, coverage_remarks
    from lmms_egoplan.launch.counts import MEASURED, count_tasks, print_counts
    from lmms_egoplan.launch.planning import RunOptions, checked_plan
    from lmms_egoplan.launch.state import read_stored
    from lmms_egoplan.status_line import StatusLine

    options = RunOptions(
        model=model,
        benchmarks=benchmarks or [],
        protocol=protocol,
        backend=backend,
        model_args=model_args,
        harness=harness,
        folder=folder,
        limit=limit,
        questions=questions,
        target_width=target_width,
        prices=prices,
        max_requests=max_requests,
        max_cost=max_cost,
        launcher=launcher,
        processes=processes,
        nodes=nodes,
        harness_options=context.args,
    )
    with StatusLine(_SILENT_S) as status:
        status.begin("Checking")
        plan = checked_plan(options)
    for remark in (*coverage_remarks(plan), *argument_remarks(plan)):
        typer.echo(remark, err=True)
    if check:
        print_counts(count_tasks(plan), read_stored(plan))
        typer.echo(f"Nothing is missing. {MEASURED}")
    elif dry_run:
        typer.echo(plan.render_script() if plan.script else plan.render_command(), nl=False)
    else:
        with StatusLine(_SILENT_S) as status:
            status.begin("Loading")
            from lmms_egoplan.launch.start import start
        start(plan, prices)
