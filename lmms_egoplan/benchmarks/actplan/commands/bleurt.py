"""``lmms-egoplan train bleurt`` and ``evaluate bleurt``: the classifier of correct plans, and how good it is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.actplan.bleurt.recipe import Positives, Shuffled

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


def train(
    plans: LabelledPlans,
    activities: Splits,
    encoder: Annotated[
        str,
        typer.Option(
            help="The encoder: Elron/bleurt-large-512 (BLEURT), Elron/bleurt-base-128 (BLEURT-base), or the folder of "
            "any BERT-type checkpoint."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the classifier, its scores and its model card.")],
    epochs: Annotated[int, typer.Option(min=1, help="Each epoch shows every training instance once.")] = 70,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Constant. Default: 5e-6 for an encoder of BERT-large's size or more, else 1e-6."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs per update.")] = 12,
    max_length: Annotated[int, typer.Option(min=8, help="Tokens of a pair. The longer plan is cut first.")] = 512,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, pairs, their order and dropout.")] = 0,
    positives: Annotated[
        Positives,
        typer.Option(help="Positive pairs: two correct plans in any order, or a gold plan first. The paper says both."),
    ] = "mixed",
    shuffled: Annotated[
        Shuffled,
        typer.Option(
            help="Shuffled gold plans are those of the same activity, as in the paper, or of the same instance, as in "
            "earlier runs of this command."
        ),
    ] = "activity",
) -> None:
    """Train ActPlan-1K's classifier of correct plans. The defaults are the paper's settings.

    Training uses a GPU where there is one. After an interruption the same command goes on after the last whole epoch.

    Example: `lmms-egoplan train bleurt finetuning_data.jsonl activities.txt --encoder Elron/bleurt-large-512
    --out classifier`
    """
    from lmms_egoplan.benchmarks.actplan.bleurt.recipe import Recipe
    from lmms_egoplan.benchmarks.actplan.bleurt.training import train_bleurt

    if learning_rate is not None and not 0 < learning_rate < 1:
        raise typer.BadParameter("must be above 0 and below 1", param_hint="--learning-rate")
    recipe = Recipe(epochs, learning_rate, batch_size, max_length, seed, positives, shuffled)
    scores = train_bleurt(plans, activities, encoder, out, recipe, lambda remark: typer.echo(remark, err=True))
    typer.echo(_summary(scores))
    typer.echo(f"Written to {out}")


def _summary(scores: dict[str, Any]) -> str:
    parts = [
        f"{model} {values['accuracy']:.1%} (majority {values['majority']:.1%}, "
        f"MCC {'n/a' if values['mcc'] is None else format(values['mcc'], '.3f')})"
        for model, values in scores["val"].items()
    ]
    epochs, train = scores["settings"]["epochs"], scores["train"]["accuracy"]
    return f"Best epoch {scores['best_epoch']} of {epochs}. Train {train:.1%}. Val: {', '.join(parts)}"


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
