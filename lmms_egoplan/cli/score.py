"""``lmms-egoplan score``: scores of plans made anywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.actplan.bleurt.classifier import BLEURT_VARIABLE

app = typer.Typer(help="Score plans made anywhere.", no_args_is_help=True)

_COLUMNS = {
    "plans": "plans",
    "lcs": "LCS",
    "lcs_norm": "normalised",
    "lcs_parsed": "LCS, parsed",
    "lcs_norm_parsed": "normalised, parsed",
    "form_validity": "valid form",
    "plan_length": "steps",
    "correct": "correct",
    "commonsense": "commonsense",
    "bleurt_accuracy": "BLEURT",
}
_BREAKDOWNS = {
    "by_model": "model",
    "by_setting": "setting",
    "by_length": "gold steps",
    "by_activity_type": "activity type",
}
_LABELS = {"correct": "Correct", "commonsense": "Commonsense"}


@app.callback()
def score() -> None:
    """Score plans made anywhere."""


@app.command("actplan")
def actplan(
    plans: Annotated[
        Path,
        typer.Option(
            help='The plans, JSON lines: {"id": ..., "candidate": ..., "references": [...]}, plans as text, gold plans '
            '1, 2, ... as references, and, where people have judged them, "correct" and "commonsense". Or the '
            "published plans_train_val.jsonl."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The scores to write, JSON.")],
) -> None:
    """Score plans for ActPlan-1K's activities against their gold plans.

    An id such as Beechwood_0_int/making_tea/0/sample_0 tells the setting and the type of the activity.
    LMMS_EGOPLAN_ENCODER sets the sentence encoder, LMMS_EGOPLAN_BLEURT a classifier.

    Example: `lmms-egoplan score actplan --plans plans.jsonl --out scores.json`
    """
    from lmms_egoplan.benchmarks.actplan.bleurt.classifier import ClassifierError
    from lmms_egoplan.benchmarks.actplan.encoder import EncoderError
    from lmms_egoplan.benchmarks.actplan.published import PublishedError
    from lmms_egoplan.benchmarks.actplan.stored import PlansError, read_plans, score_stored, write_scores

    try:
        if out.is_dir() or out.resolve() == plans.resolve():
            raise PlansError(f"{out}: --out must be a file of its own, not a folder and not the plans")
        scores = score_stored(read_plans(plans))
        write_scores(out, scores)
    except (PlansError, PublishedError, EncoderError, ClassifierError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None
    _print(scores["summary"])
    typer.echo(f"Written to {out}")


def _print(summary: dict[str, Any]) -> None:
    columns = {name: title for name, title in _COLUMNS.items() if summary.get(name) is not None}
    table = Table("", "", *columns.values())
    table.add_row("all", "", *(_cell(summary[name]) for name in columns))
    for key, title in _BREAKDOWNS.items():
        table.add_section()
        for number, (group, values) in enumerate(summary.get(key, {}).items()):
            table.add_row("" if number else title, group, *(_cell(values[name]) for name in columns))
    Console().print(table)
    for name, what in _LABELS.items():
        if summary["labelled"][name]:
            typer.echo(f"{what}: share over the {summary['labelled'][name]} plans that people have judged")
    if summary["empty"]:
        typer.echo(f"Empty plans, which score 0: {summary['empty']}")
    typer.echo(f"Encoder: {summary['encoder']}")
    typer.echo(f"Classifier: {summary['classifier'] or f'none, {BLEURT_VARIABLE} is not set'}")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
