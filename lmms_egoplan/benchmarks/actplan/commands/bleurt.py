"""``lmms-egoplan evaluate actplan-bleurt``: how good the classifier of correct plans is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from lmms_egoplan.benchmarks.actplan.bleurt.evaluation import SourceScores

LabelledPlans = Annotated[
    Path,
    typer.Argument(
        metavar="PLANS",
        help="Plans with human labels: finetuning_data.jsonl in bleu-cls/data of ActPlan-1K's repository.",
    ),
]
Splits = Annotated[
    Path, typer.Argument(metavar="ACTIVITIES", help="The activities' splits: activities.txt beside the plans.")
]


def evaluate(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="The classifier: folder that `lmms-egoplan train actplan-bleurt` wrote."),
    ],
    plans: LabelledPlans,
    activities: Splits,
    split: Annotated[Literal["val", "test"], typer.Option(help="The split to measure on.")],
) -> None:
    """Measure how far a classifier's verdicts on ActPlan-1K's plans agree with people's, beside the paper's Table 5.

    Compare each accuracy with the line "majority": that of always giving the more frequent label.

    Example: `lmms-egoplan evaluate actplan-bleurt classifier finetuning_data.jsonl activities.txt --split val`
    """
    from lmms_egoplan.benchmarks.actplan.bleurt.classifier import load_classifier
    from lmms_egoplan.benchmarks.actplan.bleurt.evaluation import evaluate_bleurt

    classifier = load_classifier(model)
    scores, unknown = evaluate_bleurt(classifier, plans, activities, split)
    for activity, count in unknown.items():
        typer.echo(f"Left out: {count} instances of {activity}, which {activities} does not name", err=True)
    _print_table(scores, split)
    typer.echo(f"Trained with {classifier.pairs}")


def _print_table(by_model: "dict[str, SourceScores]", split: Literal["val", "test"]) -> None:
    from lmms_egoplan.benchmarks.actplan.bleurt.evaluation import TABLE_5

    table = Table("", *by_model)
    scores = by_model.values()
    table.add_row("plans", *(str(each.plans) for each in scores))
    table.add_row("accuracy", *(f"{each.accuracy:.1%}" for each in scores))
    table.add_row("majority", *(f"{each.majority:.1%}" for each in scores))
    table.add_row("MCC", *("n/a" if each.mcc is None else f"{each.mcc:.3f}" for each in scores))
    table.add_row("called correct: right, wrong", *(f"{each.true_correct}, {each.false_correct}" for each in scores))
    table.add_row("called wrong: right, wrong", *(f"{each.true_wrong}, {each.false_wrong}" for each in scores))
    table.add_row("pairs cut", *(str(each.truncated) for each in scores), end_section=True)
    for name, rows in TABLE_5.items():
        shown = [rows[source] for source in by_model]
        table.add_row(f"paper's {name}: accuracy", *(f"{each[f'{split}_acc']}%" for each in shown))
        if split == "val":
            table.add_row(f"paper's {name}: MCC", *(f"{each['mcc']:.3f}" for each in shown))
    Console().print(table)
    if any(each.mcc is None for each in scores):
        typer.echo("MCC n/a: all labels or all verdicts are the same")
