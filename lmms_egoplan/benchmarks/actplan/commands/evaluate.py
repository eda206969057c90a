"""``lmms-egoplan evaluate bleurt``: how good a classifier of correct plans is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.actplan.commands.train import LabelledPlans, Splits

if TYPE_CHECKING:
    from lmms_egoplan.benchmarks.actplan.bleurt.evaluation import Evaluation


def evaluate(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="The classifier: folder that `lmms-egoplan train bleurt` wrote."),
    ],
    plans: LabelledPlans,
    activities: Splits,
    split: Annotated[Literal["val", "test"], typer.Option(help="The split to measure on.")],
) -> None:
    """Measure how far a classifier's verdicts on ActPlan-1K's plans agree with people's, beside the paper's Table 5.

    Compare each accuracy with the line "majority": that of always giving the more frequent label.

    Example: `lmms-egoplan evaluate bleurt classifier finetuning_data.jsonl activities.txt --split val`
    """
    from lmms_egoplan.benchmarks.actplan.bleurt.classifier import load_classifier
    from lmms_egoplan.benchmarks.actplan.bleurt.evaluation import evaluate_bleurt

    evaluation = evaluate_bleurt(load_classifier(model), plans, activities, split)
    for activity, count in evaluation.unknown_activities.items():
        typer.echo(f"Left out: {count} instances of {activity}, which {activities} does not name", err=True)
    _print_table(evaluation, split)
    typer.echo(f"Trained with {evaluation.pairs}")


def _print_table(evaluation: "Evaluation", split: Literal["val", "test"]) -> None:
    from lmms_egoplan.benchmarks.actplan.bleurt.evaluation import TABLE_5

    table = Table("", *evaluation.scores)
    scores = evaluation.scores.values()
    table.add_row("plans", *(str(each.plans) for each in scores))
    table.add_row("accuracy", *(f"{each.accuracy:.1%}" for each in scores))
    table.add_row("majority", *(f"{each.majority:.1%}" for each in scores))
    table.add_row("MCC", *("n/a" if each.mcc is None else f"{each.mcc:.3f}" for each in scores))
    table.add_row("called correct: right, wrong", *(f"{each.true_correct}, {each.false_correct}" for each in scores))
    table.add_row("called wrong: right, wrong", *(f"{each.true_wrong}, {each.false_wrong}" for each in scores))
    table.add_row("pairs cut", *(str(each.truncated) for each in scores), end_section=True)
    for name, rows in TABLE_5.items():
        shown = [rows[source] for source in evaluation.scores]
        table.add_row(f"paper's {name}: accuracy", *(f"{getattr(each, split)}%" for each in shown))
        if split == "val":
            table.add_row(f"paper's {name}: MCC", *(f"{each.mcc:.3f}" for each in shown))
    Console().print(table)
    if any(each.mcc is None for each in scores):
        typer.echo("MCC n/a: all labels or all verdicts are the same")
