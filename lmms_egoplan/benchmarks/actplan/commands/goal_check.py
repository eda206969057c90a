"""``lmms-egoplan evaluate actplan-goal-check``: how far the goal check agrees with people."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.commands.bleurt import LabelledPlans
from lmms_egoplan.text import join_list

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
    from lmms_egoplan.benchmarks.actplan.activities import SETTINGS
    from lmms_egoplan.benchmarks.actplan.goal_check.agreement import agreement, check_labelled
    from lmms_egoplan.benchmarks.actplan.labelled_plans import read_labelled_plans

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
