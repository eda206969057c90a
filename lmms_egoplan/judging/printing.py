"""Describe and print the cost and the end of commands that ask a judge or a language model."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.prices import PriceList
from lmms_egoplan.judging.tokens import IMAGE_TOKENS, StepUsage, total_usage
from lmms_egoplan.judging.usage import LlmOptions, LlmUsage

# A command exits with 1 if a larger fraction of its prompts has no usable reply.
MAX_LOST = 0.1
# How to request answers again if the output is a file, see `end`.
RETRY_FILE = "Rerun the command with --overwrite"


def finish_estimate(usage: LlmUsage) -> None:
    """Print the estimate and exit. Do nothing without `--estimate`.

    Raises:
        LmmsEgoplanError: the price file lacks a model.
        typer.Exit: the estimate is printed.
    """
    if usage.options.is_estimate:
        print_cost(usage)
        typer.echo("Nothing was sent.")
        raise typer.Exit


def finish(usage: LlmUsage) -> None:
    """Print the cost.

    Raise `LmmsEgoplanError` if more than `MAX_LOST` of the prompts have no usable reply.
    """
    print_cost(usage)
    if usage.lost > MAX_LOST * usage.asked:
        raise LmmsEgoplanError(
            f"{usage.lost} of {usage.asked} prompts have no usable reply, more than "
            f"{MAX_LOST:.0%}. The output is written without them; its rejections give the "
            "reasons. To request them again, use --retry-rejected"
        )


def print_cost(usage: LlmUsage) -> None:
    """Print the requests and tokens of a command, and their price; see `print_steps`."""
    print_steps(usage.steps, usage.options)


def print_steps(steps: Sequence[StepUsage], options: LlmOptions) -> None:
    """Print the requests and tokens of steps, and their price if there is a file of prices.

    Print nothing without steps.

    Raises:
        LmmsEgoplanError: the price file lacks a model. All other lines are printed before.
    """
    if steps:
        for line in _cost_lines(steps, options):
            typer.echo(line)


def _cost_lines(steps: Sequence[StepUsage], options: LlmOptions) -> Iterator[str]:
    """Yield lines about the requests and tokens of steps, and at last about their price."""
    total = total_usage(steps)
    for step in (*steps, total):
        yield f"{step.title}: {step.describe(is_estimate=options.is_estimate)}"
    if options.is_estimate:
        yield (
            "Cached replies are not counted, nor second requests after an unusable reply. Prompt "
            f"tokens are approximate; an image counts as {IMAGE_TOKENS}. Expected reply tokens: "
            "the mean of stored replies of the same endpoint and model to prompts that begin "
            "alike, if there are any."
        )
    if options.prices is not None:
        price = _price(steps, total, options.prices, is_estimate=options.is_estimate)
        line = f"Price: {price}, by {options.prices.file}"
        if options.batch:
            line += " (half as much as live)"
        if total.unknown:
            line += f", without {total.unknown}"
        yield line


def _price(
    steps: Sequence[StepUsage], total: StepUsage, prices: PriceList, *, is_estimate: bool
) -> str:
    """Describe the price of steps: for prompts, for replies, and the expected price if known."""
    prompt_costs = [step.prompt_tokens * prices.price(step.model).input for step in steps]
    reply_costs = [step.reply_tokens * prices.price(step.model).output for step in steps]
    for_prompts = sum(prompt_costs) / prices.tokens
    for_replies = sum(reply_costs) / prices.tokens
    if is_estimate:
        text = f"~{for_prompts:,.2f} for prompts, at most {for_replies:,.2f} for replies"
    else:
        text = f"{for_prompts:,.2f} for prompts, {for_replies:,.2f} for replies"
    if total.expected is not None:
        asked = [step for step in steps if step.requests]
        expected_costs = [(step.expected or 0) * prices.price(step.model).output for step in asked]
        expected = sum(expected_costs) / prices.tokens
        text += f" (expected: ~{expected:,.2f}, so ~{for_prompts + expected:,.2f} in all)"
    return text


def partial_path(out: Path) -> Path:
    """Return the output path of incomplete judged answers, if complete ones exist."""
    return out.with_name(f"{out.name}.partial")


def written_path(out: Path, unjudged: int) -> Path:
    """Return the output path of judged answers.

    An incomplete result does not replace an existing file.
    """
    if unjudged and out.exists():
        return partial_path(out)
    return out


def end(
    written: Path, unjudged: int, total: int, scope: str = "", retry: str = "Rerun the command"
) -> None:
    """Print the name of the output file.

    Args:
        written: the output file.
        unjudged: number of answers without a rating.
        total: number of answers.
        scope: text after "are not judged", such as " in each repeat".
        retry: how to request these answers again.

    Raises:
        LmmsEgoplanError: some answers are not judged.
    """
    typer.echo(f"Written to {written}")
    if unjudged:
        raise LmmsEgoplanError(
            f"{unjudged} of {total} answers are not judged{scope} ({written} lists the reasons). "
            f"{retry} to request them again, unless a reason says otherwise"
        )
