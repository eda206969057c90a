"""``lmms-egoplan judge actplan``: types of errors in wrong plans, by a judge."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmms_egoplan.judging.asking import Asking, EstimateOnly, Prices, RetryRejected

if TYPE_CHECKING:
    from lmms_egoplan.benchmarks.actplan.error_judge import JudgedPlan

Instances = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder `annotation` of the release, for tasks and images. Without it, the prepared data.",
    ),
]


def judge(
    plans: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLANS",
            help="Plans, as `score actplan` takes them. Those that people called correct are passed over. With "
            "`plans.jsonl` of `annotate export`, the judge is compared with people's types of errors.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for what the judge says; `report` takes it.")],
    instances: Instances = None,
    retry_rejected: RetryRejected = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
) -> None:
    """Have a judge mark the six types of errors in plans that people called wrong.

    LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY set the endpoint, LMMS_EGOPLAN_JUDGE_MODEL the model,
    which must read images (gpt-4o-2024-11-20 by default). Replies are stored as they come: after an interruption, the
    same command asks for the rest only.

    Example: `lmms-egoplan judge actplan labels/plans.jsonl --out judged-errors`
    """
    from lmms_egoplan.benchmarks.actplan.answer_files import read_plans
    from lmms_egoplan.benchmarks.actplan.error_judge import DEFAULT_JUDGE, JUDGED_ERRORS, judge_errors, judged_lines
    from lmms_egoplan.benchmarks.actplan.shown_instances import instances_of
    from lmms_egoplan.errors import LmmsEgoplanError
    from lmms_egoplan.judging.json_replies import language_model
    from lmms_egoplan.report.labelled import write_folder

    settings = language_model(DEFAULT_JUDGE, asking=Asking(retry_rejected, estimate, prices))
    stored = [(plan.model or path.stem, plan) for path in plans for plan in read_plans(path)]
    wrong = [(model, plan) for model, plan in stored if not plan.labels["correct"]]
    if not wrong:
        raise LmmsEgoplanError(f"people called all {len(stored)} plans correct; there is nothing to judge")
    judged = judge_errors(wrong, instances_of({plan.plan.id for _, plan in wrong}, instances), settings)
    settings.asking.finish_estimate()
    write_folder(out, "actplan", {JUDGED_ERRORS: judged_lines(judged)})
    _print(judged)
    unjudged = [plan for plan in judged if plan.judge is None]
    typer.echo(f"Passed over, as people called them correct: {len(stored) - len(wrong)} of {len(stored)} plans")
    typer.echo(f"Written to {out / JUDGED_ERRORS}")
    if unjudged:
        raise LmmsEgoplanError(
            f"{len(unjudged)} of {len(judged)} plans are not judged, {unjudged[0].id} of {unjudged[0].model} for one: "
            f"{unjudged[0].error}. The same command asks again for what got no "
            "reply, --retry-rejected also for replies that cannot be used"
        )


def _print(judged: "list[JudgedPlan]") -> None:
    from rich.console import Console
    from rich.table import Column, Table

    from lmms_egoplan.benchmarks.actplan.error_judge import agreements
    from lmms_egoplan.benchmarks.actplan.labels import ERRORS
    from lmms_egoplan.judging.agreement import MIN_ITEMS

    found = agreements(judged)
    heads = ("judge", "judge, of both", "people, of both", "same plans", "kappa", "95 %")
    table = Table("error", *(Column(head, justify="right") for head in heads[: 6 if found else 1]))
    for key, title in ERRORS.items():
        cells = [str(sum(key in plan.judge for plan in judged if plan.judge is not None))]
        if found:
            people, judge, same, agreement = found[key]
            kappa = agreement.kappa_unweighted
            cells += [str(judge), str(people), str(same)]
            cells += ["n/a", "n/a"] if kappa is None else [f"{kappa.value:.2f}", f"{kappa.low:.2f} to {kappa.high:.2f}"]
        table.add_row(title, *cells)
    Console().print(table)
    both = sum(plan.people is not None and plan.judge is not None for plan in judged)
    rated = sum(plan.judge is not None for plan in judged)
    names = ", ".join(dict.fromkeys(plan.judge_model for plan in judged))
    if both:
        typer.echo(f"kappa n/a: fewer than {MIN_ITEMS} plans that both marked, or one of them marks all plans alike")
    typer.echo(f"Plans judged: {rated} of {len(judged)}; marked by people, too: {both}. Judge: {names}")
