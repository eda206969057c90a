"""``lmms-egoplan data build``."""

import typer

from lmms_egoplan.construction.actplan.commands import build as build_actplan
from lmms_egoplan.construction.egointent.commands import build as build_egointent
from lmms_egoplan.construction.egoplan.commands import build as build_egoplan
from lmms_egoplan.construction.egothink.commands import build as build_egothink

build = typer.Typer(
    help="""
    Build annotations in a benchmark's format from other data.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --videos
    ego4d/full_scale --out steps.jsonl`
    """,
    no_args_is_help=True,
)
build.command("egoplan")(build_egoplan)
build.command("egointent")(build_egointent)
build.command("actplan")(build_actplan)
build.command("egothink")(build_egothink)
