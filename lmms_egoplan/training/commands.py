"""``lmms-egoplan train``, ``merge`` and ``data export``."""

import typer

from lmms_egoplan.training.bleurt.commands import train as train_bleurt
from lmms_egoplan.training.egoplan.commands import export as export_egoplan
from lmms_egoplan.training.egoplan.commands import merge as merge_egoplan
from lmms_egoplan.training.egoplan.commands import train as train_egoplan

export = typer.Typer(
    help="""
    Convert a benchmark's data for other programs.

    Example: `lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl --epic-kitchens
    EPIC-KITCHENS --out trl`
    """,
    no_args_is_help=True,
)
export.command("egoplan-it")(export_egoplan)

train = typer.Typer(
    help="""
    Train models on a benchmark's training data, or models for its metrics.

    Example: `lmms-egoplan train egoplan EgoPlan_IT.json --model Qwen/Qwen2.5-VL-7B-Instruct --set
    epic_kitchens=EPIC-KITCHENS --out tuned`
    """,
    no_args_is_help=True,
)
train.command("egoplan")(train_egoplan)
train.command("actplan-bleurt")(train_bleurt)

merge = typer.Typer(
    help="""
    Merge an adapter into its base model.

    Example: `lmms-egoplan merge egoplan tuned --out checkpoint`
    """,
    no_args_is_help=True,
)
merge.command("egoplan")(merge_egoplan)
