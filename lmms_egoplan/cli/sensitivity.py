"""``lmms-egoplan sensitivity``: the effect of each choice of a protocol on a model's score."""

from typing import Annotated, Literal

import typer

from lmms_egoplan.options import OptionalOutFolder


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
        str,
        typer.Option(
            metavar="NAME,...",
            help="Factors: parser, prompt, media, observation, option order, decoding, scoring, "
            "preset. Default: all.",
        ),
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
    from lmms_egoplan.harnesses.backends import find_backend
    from lmms_egoplan.sensitivity.conditions import conditions
    from lmms_egoplan.sensitivity.measure import make_plan, measure

    ranks = find_backend("lmms-eval", backend).is_ours
    factors = [name.strip().replace("-", " ") for name in vary.split(",") if name.strip()]
    chosen = conditions(benchmark, base, factors, ranks=ranks)
    plan = make_plan(benchmark, model, backend, model_args, folder)
    measure(plan, benchmark, questions, chosen, is_check=check)
