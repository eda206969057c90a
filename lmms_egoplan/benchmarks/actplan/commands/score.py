"""``lmms-egoplan score actplan``: scores of plans made anywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.bleurt.classifier import BLEURT_VARIABLE

_MEASURES = {
    "lcs": "LCS",
    "lcs_norm": "normalised",
    "lcs_parsed": "LCS, parsed",
    "lcs_norm_parsed": "normalised, parsed",
    "form_validity": "valid form",
    "plan_length": "steps",
    "bleurt_correct": "called correct",
    "correct": "correct (people)",
    "commonsense": "commonsense (people)",
}
# Of every group.
_COLUMNS = ("lcs", "lcs_norm", "lcs_norm_parsed", "correct")
_REMARKS = {
    "empty": "Empty plans, which score 0",
    "ends_in_thought": "Of these, replies that end inside a thought",
    "unparsed": "Plans without a step in the parsed reading",
    "repeated_ids": "Plans whose id was there before",
}
_BREAKDOWNS = {
    "by_model": "model",
    "by_setting": "setting",
    "by_length": "gold steps",
    "by_activity_type": "activity type",
}


def score(
    plans: Annotated[
        Path,
        typer.Argument(
            metavar="PLANS",
            help='JSON lines: {"id": ..., "candidate": ..., "references": [...]}. Plans are texts, the references gold '
            'plans 1, 2, ... Where people have judged the plans: "correct" and "commonsense", too. Or the authors\' '
            "finetuning_data.jsonl.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The scores to write, JSON.")],
) -> None:
    """Score plans for ActPlan-1K's activities against their gold plans.

    A model's thinking is removed first. A reply that ends inside a thought has no plan.

    An id such as Beechwood_0_int/making_tea/0/sample_0 gives the setting and the type of the activity.
    LMMS_EGOPLAN_ENCODER sets the sentence encoder, LMMS_EGOPLAN_BLEURT a classifier.

    Example: `lmms-egoplan score actplan plans.jsonl --out scores.json`
    """
    from lmms_egoplan.benchmarks.actplan.answer_files import read_plans, score_stored, write_scores
    from lmms_egoplan.errors import LmmsEgoplanError

    if out.is_dir() or out.resolve() == plans.resolve():
        raise LmmsEgoplanError(f"{out}: --out must be a file of its own, not a folder and not the plans")
    scores = score_stored(read_plans(plans))
    write_scores(out, scores)
    _print(scores["summary"])
    typer.echo(f"Written to {out}")


def _print(summary: dict[str, Any]) -> None:
    whole = Table("all plans", Column("", justify="right", no_wrap=True))
    whole.add_row("plans", str(summary["plans"]))
    for name, title in _MEASURES.items():
        if summary[name] is not None:
            labelled = f", of {summary['labelled'][name]}" if name in summary["labelled"] else ""
            whole.add_row(f"{title}{labelled}", _cell(summary[name]))
    columns = [name for name in _COLUMNS if summary[name] is not None]
    titles = (_MEASURES[name] for name in columns)
    parts = Table(Column("by", no_wrap=True), *(Column(title, justify="right") for title in ("plans", *titles)))
    for key, title in _BREAKDOWNS.items():
        if key in summary:
            parts.add_row(title)
        for group, values in summary.get(key, {}).items():
            parts.add_row(f"  {group}", str(values["plans"]), *(_cell(values[name]) for name in columns))
        parts.add_section()
    Console().print(whole, parts)
    for name, what in _REMARKS.items():
        if summary[name]:
            typer.echo(f"{what}: {summary[name]}")
    typer.echo(f"Encoder: {summary['encoder']}")
    typer.echo(f"Classifier: {summary['classifier'] or f'none, {BLEURT_VARIABLE} is not set'}")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
