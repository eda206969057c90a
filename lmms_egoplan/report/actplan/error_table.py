"""Print the types of errors that a judge marked in plans, next to people's."""

from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.plans import ERRORS
from lmms_egoplan.report.actplan.error_judge import JudgedPlan, agreements
from lmms_egoplan.stats.agreement import MIN_ITEMS


def print_errors(judged: Sequence[JudgedPlan]) -> None:
    """Print the number of plans with each type of error, and the judge's agreement with people."""
    by_error = agreements(judged)
    titles = ["judge"]
    if by_error:
        titles += ["judge, shared", "people, shared", "both, shared", "kappa", "95 %"]
    table = Table("error", *(Column(title, justify="right") for title in titles))
    for key, title in ERRORS.items():
        cells = [str(sum(key in plan.judge for plan in judged if plan.judge is not None))]
        if by_error:
            num_people, num_judge, num_both, shared = by_error[key]
            cells += [str(num_judge), str(num_people), str(num_both)]
            kappa = shared.kappa_unweighted
            if kappa is None:
                cells += ["n/a", "n/a"]
            else:
                cells += [f"{kappa.value:.2f}", f"{kappa.low:.2f} to {kappa.high:.2f}"]
        table.add_row(title, *cells)
    Console().print(table)
    num_shared = sum(plan.people is not None and plan.judge is not None for plan in judged)
    num_judged = sum(plan.judge is not None for plan in judged)
    names = ", ".join(dict.fromkeys(plan.judge_model for plan in judged))
    if num_shared:
        typer.echo(
            f"kappa n/a: fewer than {MIN_ITEMS} plans marked by both, or one side marks "
            "all plans the same"
        )
    typer.echo(
        f"Plans judged: {num_judged} of {len(judged)}; shared, also marked by people: "
        f"{num_shared}. Judge: {names}"
    )
