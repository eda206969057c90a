"""Run the conditions of a sensitivity run, and write their effects."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.launch.checks import argument_remarks, coverage_remarks, find_problems
from lmms_egoplan.launch.plan import Plan, read_arguments
from lmms_egoplan.model_names import short_name
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.sensitivity import effects
from lmms_egoplan.sensitivity.conditions import Condition

_NAME = "sensitivity"


def make_plan(
    benchmark: str, model: str, backend: str, model_args: str, folder: Path | None
) -> Plan:
    """Return the plan of a run that asks for written answers.

    Args:
        benchmark: ``egoplan`` or ``egoplan_bench2``.
        model: Checkpoint, or name of the model at an API.
        backend: Name of a backend of lmms-eval.
        model_args: Further arguments of the backend, ``name=value,name=value``.
        folder: Folder of the run; None for the default one.

    Raises:
        LmmsEgoplanError: The arguments are malformed.
    """
    name = f"{short_name(model).replace('/', '-')}-{benchmark}-{_NAME}"
    task = f"{benchmark}_val_generate" if benchmark == "egoplan" else f"{benchmark}_generate"
    return Plan(
        model=model,
        backend_name=backend,
        model_args=read_arguments(model_args),
        harness="lmms-eval",
        tasks=[task],
        out=folder or Path("runs", name),
        owner=_NAME,
    )


def measure(
    plan: Plan, benchmark: str, questions: int, chosen: Sequence[Condition], *, is_check: bool
) -> None:
    """Ask the model what has no stored reply, and write the effects of the conditions.

    Args:
        plan: The model, its backend and the folder.
        benchmark: ``egoplan`` or ``egoplan_bench2``.
        questions: Number of questions.
        chosen: The conditions.
        is_check: Whether to only check and count.

    Raises:
        LmmsEgoplanError: Something that the run needs is missing, or requests failed.
    """
    problems = find_problems(plan)
    if problems:
        raise LmmsEgoplanError("\n".join(problems))
    for remark in (*coverage_remarks(plan), *argument_remarks(plan)):
        typer.echo(remark, err=True)
    if not plan.backend.is_ours:
        typer.echo(
            f"{plan.backend_name}: no likelihoods, and some decoding settings may not be sent; "
            "use hf_vlm",
            err=True,
        )
    from lmms_egoplan.sensitivity.asking import ReplyStore  # loads lmms-eval

    names = [effects.PAGE, effects.MARKDOWN, effects.JSON]
    with nullcontext() if is_check else output_folder(plan.out, _NAME, names):
        store = ReplyStore(plan, benchmark, questions, is_check=is_check)
        store.ask({condition.asked for condition in chosen})
        if not is_check:
            effects.write(
                plan.out,
                benchmark,
                plan.model,
                chosen,
                store.docs,
                store.replies,
                total=store.total,
                truncated=store.truncated,
            )
            typer.echo(
                f"{len(store.docs):,} of {store.total:,} questions. Written to "
                f"{plan.out / 'sensitivity.html'}"
            )
        if store.failures:
            raise LmmsEgoplanError(
                f"{store.failures[0]}. Replies not received: {len(store.failures)}; repeat the "
                "command"
            )
