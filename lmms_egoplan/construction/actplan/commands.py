"""``lmms-egoplan data build actplan``: build instances from BDDL activities and tours."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.annotation.actplan_circumstances import CIRCUMSTANCES
from lmms_egoplan.construction.actplan.build import (
    COUNTERFACTUALS,
    INSTANCES,
    REJECTIONS,
    build_instances,
)
from lmms_egoplan.construction.actplan.layout import ANNOTATION
from lmms_egoplan.judging.asking import (
    EstimateOnly,
    Llm,
    LlmUsage,
    MaxCost,
    MaxRequests,
    Prices,
    Retry,
)
from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model
from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.rejections import counted


def build(
    bddl: Annotated[
        Path,
        typer.Argument(
            metavar="BDDL",
            help=(
                "Folder of activities: `<activity>/problem0.bddl`, as in ActPlan-1K's "
                "`bddl/activity_definitions`."
            ),
        ),
    ],
    out: OutFolder,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Tours: videos `sample_<k>.mp4` or folders of images `sample_<k>/`, in "
                "`<scene>/<activity>/<n>/`. Without tours, only descriptions and circumstances "
                "are built."
            ),
        ),
    ] = None,
    llm: Llm = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Activities with a `task_description_<n>.txt` next to each problem, used as "
                "examples for the model (default: BDDL)."
            ),
        ),
    ] = None,
    circumstances: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Chosen circumstances, from `annotate export`."),
    ] = None,
    views: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Views chosen by hand: CSV with the columns id and view, one row per view "
                "(seconds in the video, or the image's name), or a JSON object of lists. The "
                "model chooses the views of all other tours."
            ),
        ),
    ] = None,
    plans: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Gold plans, from `annotate export`.")
    ] = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
) -> None:
    """Build instances in ActPlan-1K's format from BDDL activities and tours of rooms, following the
    paper.

    A language model describes the activities, proposes what might happen during them, and lists
    what the views show. It must read images; set it like a judge (LMMS_EGOPLAN_JUDGE_BASE_URL,
    LMMS_EGOPLAN_JUDGE_API_KEY). People choose the circumstances and write the gold plans.

    Each run does everything that is possible with their answers so far, and prints the next
    command. To resume an interrupted run, repeat the command: replies and views are cached, so no
    reply is paid for twice. If more than 10 % of the prompts have no usable reply, the exit code is
    1; the output is still written.

    Example: `lmms-egoplan data build actplan bddl/activity_definitions --images tours --llm
    gpt-4o-2024-11-20 --out built`

    Finally, prepare the instances with `data prepare actplan built/annotation`. `rejections.jsonl`
    lists everything that was skipped, one line each.
    """
    names = [
        CIRCUMSTANCES,
        REJECTIONS,
        COUNTERFACTUALS,
        "figure_4.csv",
        "figure_4.png",
        "figure_4.svg",
    ]
    with output_folder(out, "data build actplan", names):
        asking = LlmUsage(
            retry_rejected, estimate, prices, max_requests=max_requests, max_cost=max_cost
        )
        settings = language_model(DEFAULT_MODEL, llm, asking)
        built = build_instances(bddl, out, settings, images, examples, circumstances, views, plans)
        for reason, count in counted(built.rejections):
            typer.echo(f"Skipped: {count}: {reason}")
        typer.echo(f"Details: {out / REJECTIONS}")
        if built.waiting and circumstances is None:
            typer.echo(
                f"Next: let people choose among {len(built.waiting)} circumstances: lmms-egoplan "
                f"annotate actplan-circumstances {out / CIRCUMSTANCES} --db circumstances.sqlite"
            )
        if images is None:
            typer.echo(f"Next: pass tours of the {len(built.activities)} activities with --images")
        elif built.untoured:
            typer.echo(
                f"Without a tour: {len(built.untoured)} activities, for example {built.untoured[0]}"
            )
        if built.instances and plans is None:
            typer.echo(
                f"Next: let people write gold plans for {len(built.instances)} instances: "
                f"lmms-egoplan annotate actplan-plans {out / INSTANCES} --db plans.sqlite"
            )
        if built.finished:
            typer.echo(f"Next: lmms-egoplan data prepare actplan {out / ANNOTATION}")
        changed = sum(bool(activity.circumstance) for activity in built.activities)
        typer.echo(
            f"{len(built.activities)} activities described, {changed} of them changed by a "
            f"circumstance; {len(built.instances)} instances with views, {built.finished} with "
            f"gold plans; written to {out}"
        )
        asking.finish()
