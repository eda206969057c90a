"""``lmms-egoplan evaluate actplan-bleurt`` and ``evaluate actplan-goal-check``: how far both agree with people."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.activities import SETTINGS
from lmms_egoplan.benchmarks.actplan.bleurt import load_classifier
from lmms_egoplan.benchmarks.actplan.bleurt_evaluation import TABLE_5, SourceScores, evaluate_bleurt
from lmms_egoplan.benchmarks.actplan.goal_check.check import agreement, check_labelled
from lmms_egoplan.benchmarks.actplan.labelled_plans import read_labelled_plans
from lmms_egoplan.text import join_list

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


def bleurt(
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
    classifier = load_classifier(model)
    scores, unknown = evaluate_bleurt(classifier, plans, activities, split)
    for activity, count in unknown.items():
        typer.echo(f"Left out: {count} instances of {activity}, which {activities} does not name", err=True)
    _print_table(scores, split)
    typer.echo(f"Trained with {classifier.pairs}")


def _print_table(by_model: dict[str, SourceScores], split: Literal["val", "test"]) -> None:
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


_ROWS = {
    "plans": "plans",
    "checked": "with a value",
    "correct": "correct by people",
    "reached": "all conditions reached",
    "accuracy": "accuracy",
    "mcc": "Matthews' correlation",
    "auc": "AUC of the share reached",
    "always_wrong": "accuracy, all called wrong",
    "condition_coverage": "goal conditions checkable",
    "step_coverage": "steps understood",
    "name_coverage": "names understood",
}
# Problems that are named.
_NAMED = 5


def goal_check(
    plans: LabelledPlans,
    bddl: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder with the activities' BDDL problems: bddl/activity_definitions of ActPlan-1K's repository, or "
            "its full release.",
        ),
    ],
) -> None:
    """Compare ActPlan-1K's goal check with people's verdicts on published plans.

    The check carries out a plan on its activity's BDDL problem. A plan is correct by the check if it reaches all goal
    conditions that can be checked. A plan has no value without such a condition, without a step that is understood, or
    if its names fit nothing in the problem.

    The check's words come from the plans of the train and val activities, so its figures on these are in-sample.

    Example: `lmms-egoplan evaluate actplan-goal-check finetuning_data.jsonl --bddl bddl/activity_definitions`
    """
    checked, wrong = check_labelled(read_labelled_plans(plans), bddl)
    groups = {"all plans": checked} | {name: [plan for plan in checked if plan.setting == name] for name in SETTINGS}
    _print({name: agreement(members) for name, members in groups.items() if members})
    if wrong:
        count = sum(plan.check is None for plan in checked)
        typer.echo(f"Without a problem: {count} plans: {join_list(wrong, _NAMED)}")


def _print(figures: dict[str, dict[str, float | None]]) -> None:
    table = Table(Column("", no_wrap=True), *(Column(name, justify="right") for name in figures))
    for field, title in _ROWS.items():
        table.add_row(title, *(_cell(of_group[field]) for of_group in figures.values()))
    Console().print(table)


def _cell(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"
