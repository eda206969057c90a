"""``lmms-egoplan sensitivity``: the effect of each choice of a protocol on a model's score."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.backends import find_backend
from lmms_egoplan.launch.checks import argument_remarks, coverage_remarks, find_problems
from lmms_egoplan.launch.plan import Plan, read_arguments
from lmms_egoplan.model_names import short_name
from lmms_egoplan.options import OptionalOutFolder
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.sensitivity import effects
from lmms_egoplan.sensitivity.conditions import FACTORS, conditions

_NAME = "sensitivity"


def sensitivity(
    benchmark: Annotated[
        Literal["egoplan", "egoplan_bench2"], typer.Argument(help="Benchmark, prepared.")
    ],
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Checkpoint, or the model's name at an API.")
    ],
    questions: Annotated[
        int, typer.Option(min=1, help="Number of questions, a random sample.")
    ] = 300,
    vary: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Factors: {', '.join(FACTORS)}. Default: all.")
    ] = "",
    base: Annotated[
        str,
        typer.Option(help="Preset to start from. Default: the first one that asks for letters."),
    ] = "",
    backend: Annotated[str, typer.Option(help="The backend of lmms-eval.")] = "hf_vlm",
    model_args: Annotated[
        str, typer.Option(metavar="NAME=VALUE,...", help="Further arguments of the backend.")
    ] = "",
    folder: OptionalOutFolder = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check and count, without loading weights.")
    ] = False,
) -> None:
    """Measure how many points each choice of a protocol moves the score of a model.

    The model answers a sample of the questions as the base preset asks them. Then one factor at a
    time changes, to each value that a preset has, and each preset is asked as a whole. Media are
    decoded once per question and frame set. Parsers read the same replies.

    Problems and the cost are printed first. Replies are stored in `DIR` one by one. To resume an
    interrupted run, or to add questions or factors, repeat the command. By default, `DIR` is
    `runs/` and the names of model and benchmark.

    Example: `lmms-egoplan sensitivity egoplan_bench2 Qwen/Qwen2.5-VL-7B-Instruct --questions 300
    --vary parser,prompt,decoding`
    """
    known = find_backend("lmms-eval", backend)
    factors = [name.strip().replace("-", " ") for name in vary.split(",") if name.strip()]
    chosen = conditions(benchmark, base, factors, ranks=known.is_ours)
    out = folder or Path("runs", f"{short_name(model).replace('/', '-')}-{benchmark}-sensitivity")
    task = f"{benchmark}_val_generate" if benchmark == "egoplan" else f"{benchmark}_generate"
    plan = Plan(
        model=model,
        backend_name=backend,
        model_args=read_arguments(model_args),
        harness="lmms-eval",
        tasks=[task],
        out=out,
        owner=_NAME,
    )
    problems = find_problems(plan)
    if problems:
        raise LmmsEgoplanError("\n".join(problems))
    for remark in (*coverage_remarks(plan), *argument_remarks(plan)):
        typer.echo(remark, err=True)
    if not known.is_ours:
        typer.echo(
            f"{backend}: no likelihoods, and some decoding settings may not be sent; use hf_vlm",
            err=True,
        )
    from lmms_egoplan.sensitivity.asking import ReplyStore  # loads lmms-eval

    names = [effects.PAGE, effects.MARKDOWN, effects.JSON]
    with nullcontext() if check else output_folder(out, _NAME, names):
        store = ReplyStore(plan, benchmark, questions, is_check=check)
        store.ask({condition.asked for condition in chosen})
        if not check:
            effects.write(
                out,
                benchmark,
                model,
                chosen,
                store.docs,
                store.replies,
                total=store.total,
                truncated=store.truncated,
            )
            typer.echo(
                f"{len(store.docs):,} of {store.total:,} questions. Written to "
                f"{out / 'sensitivity.html'}"
            )
        if store.failures:
            raise LmmsEgoplanError(
                f"{store.failures[0]}. Replies not received: {len(store.failures)}; repeat the "
                "command"
            )
