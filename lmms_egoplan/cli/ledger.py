"""``lmms-egoplan ledger``: print published scores with their sources."""

from typing import Annotated, Literal

import typer

Benchmark = Literal["egoplan", "egoplan_bench2", "egothink"]
Form = Literal["text", "md", "csv"]


def ledger(
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only models whose names contain NAME.")
    ] = None,
    benchmark: Annotated[
        Benchmark | None, typer.Option(help="Only scores of this benchmark.")
    ] = None,
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help="Output. `md` and `csv` add references; CSV has its notes on standard error.",
        ),
    ] = "text",
) -> None:
    """Print published scores of EgoPlan-Bench, EgoPlan-Bench2 and EgoThink, best first, with source
    and protocol.

    The scores come from papers, model cards and repositories, and have the printed digits.
    `unknown` lists what the source does not state. The last line counts scores, sources and marks:

    - `copy`: the number is in an earlier source or in the benchmark's paper, or the source says so.
    - `not whole`: no whole number of right answers gives this score.
    - `below chance`: the score is lower than that of random answers.
    - `quoted`: the number was read in a note, not in the source. Check it before you cite it.

    `--model` ignores case and separators: `qwen2.5-vl-7b` also matches `Qwen2.5-VL-7B-Instruct`. It
    adds the spread of each model's scores in each subset, without copies.

    Example: `lmms-egoplan ledger --model qwen2.5-vl-7b --benchmark egoplan_bench2`
    """
    from lmms_egoplan.report.ledger_output import print_ledger

    print_ledger(model, benchmark, form)
