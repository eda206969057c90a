"""``lmms-egoplan evaluate goal-check``: how far the goal check agrees with people."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

if TYPE_CHECKING:
    from lmms_egoplan.benchmarks.actplan.goal_check.agreement import Agreement

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
    plans: Annotated[
        Path,
        typer.Argument(
            metavar="PLANS",
            help="Plans with human labels: finetuning_data.jsonl in bleu-cls/data of ActPlan-1K's repository.",
        ),
    ],
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

    Example: `lmms-egoplan evaluate goal-check finetuning_data.jsonl --bddl bddl/activity_definitions`
    """
    from lmms_egoplan.benchmarks.actplan.activities import SETTINGS
    from lmms_egoplan.benchmarks.actplan.goal_check.agreement import agreement, check_labelled
    from lmms_egoplan.benchmarks.actplan.labelled_plans import read_labelled_plans

    checked, wrong = check_labelled(read_labelled_plans(plans), bddl)
    groups = {"all plans": checked} | {name: [plan for plan in checked if plan.setting == name] for name in SETTINGS}
    _print({name: agreement(members) for name, members in groups.items() if members})
    if wrong:
        named = "; ".join(wrong[:_NAMED])
        more = f"; and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        typer.echo(f"Without a problem: {sum(plan.check is None for plan in checked)} plans: {named}{more}")


def _print(figures: "dict[str, Agreement]") -> None:
    table = Table(Column("", no_wrap=True), *(Column(name, justify="right") for name in figures))
    for field, title in _ROWS.items():
        values = [getattr(of_group, field) for of_group in figures.values()]
        table.add_row(title, *map(_cell, values))
    Console().print(table)


def _cell(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"
