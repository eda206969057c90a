"""Define ``lmms-egoplan data build egointent``."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.construction.egointent.build import build as build_from_narrations
from lmms_egoplan.construction.egointent.build import rejections_path, write
from lmms_egoplan.construction.egointent.goalstep import (
    build_records,
    describe_missing,
    write_records,
)
from lmms_egoplan.judging.asking import (
    EstimateOnly,
    Llm,
    LlmUsage,
    MaxCost,
    MaxRequests,
    Prices,
    Retry,
)
from lmms_egoplan.options import OutFile, Overwrite
from lmms_egoplan.outputs import output_file
from lmms_egoplan.rejections import counted


def build(
    goalstep: Annotated[
        Path, typer.Argument(metavar="GOALSTEP", help="Ego4D Goal-Step's annotation file.")
    ],
    videos: Annotated[
        Path,
        typer.Option(help="Folder with `<video_uid>.mp4`. Steps of missing videos are skipped."),
    ],
    out: OutFile,
    narrations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Ego4D's `narration.json`. Builds steps at the times of narrations, as the "
                "paper does."
            ),
        ),
    ] = None,
    llm: Llm = None,
    before_end: Annotated[
        float | None,
        typer.Option(
            help=(
                "Cut each step this many seconds before its end. Default 0.5. Not with "
                "--narrations."
            )
        ),
    ] = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
    overwrite: Overwrite = False,
) -> None:
    """Build steps in EgoIntent's format from Ego4D. Their labels are unverified.

    With --narrations, steps end at the time of a narration, as in the paper. A language model
    proposes the procedural intent and the next step, and people revise them with `annotate
    egointent`. Set the language model like a judge (LMMS_EGOPLAN_JUDGE_BASE_URL,
    LMMS_EGOPLAN_JUDGE_API_KEY). Replies are stored: to resume an interrupted run, repeat the
    command; no reply is paid for twice. If more than 10 % of the prompts have no usable reply, the
    output is written and the exit code is 1.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --narrations
    narration.json --videos ego4d/full_scale --llm gpt-4o-2024-11-20 --out steps.jsonl`

    Without --narrations, the command builds Goal-Step steps with Goal-Step's own texts. They are
    not EgoIntent's steps, and their scores are not comparable with the paper's.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --videos ego4d/full_scale
    --out steps.jsonl`

    A video id that starts with `grp-` names a grouped video: several Ego4D videos joined end to
    end. Ego4D's downloader gets all videos and the annotation file: `ego4d --datasets full_scale
    annotations --benchmarks goalstep -o DIR`

    - Goal-Step: https://github.com/facebookresearch/ego4d-goalstep
    """
    inputs = [goalstep] if narrations is None else [goalstep, narrations]
    with output_file(out, inputs, overwrite=overwrite, also=[rejections_path(out)]):
        asking = LlmUsage(
            retry_rejected, estimate, prices, max_requests=max_requests, max_cost=max_cost
        )
        if narrations is None:
            if llm is not None or retry_rejected or estimate:
                raise typer.BadParameter(
                    "only with --narrations", param_hint="--llm, --retry-rejected, --estimate"
                )
            built = build_records(goalstep, videos, 0.5 if before_end is None else before_end)
            write_records(built.records, built.outcomes, out)
            reasons = "; ".join(
                f"{count}: {reason}" for reason, count in built.rejected.most_common()
            )
            num_videos = len({record.video_id for record in built.records})
            typer.echo(
                f"{len(built.records)} Goal-Step steps of {num_videos} videos, unverified, written "
                f"to {out}\n"
                f"Rejected: {reasons or 'none'}"
            )
            if built.absent:
                typer.echo(f"Videos {describe_missing(built.absent, built.num_videos)}")
            return
        if before_end is not None:
            raise typer.BadParameter(
                "not with --narrations: these steps end at the time of a narration",
                param_hint="--before-end",
            )
        steps, rejections = build_from_narrations(narrations, goalstep, videos, llm, asking)
        write(steps, rejections, out)
        reasons = "; ".join(f"{count}: {reason}" for reason, count in counted(rejections))
        typer.echo(f"Rejected, see {rejections_path(out)}: {reasons or 'nothing'}")
        without_place = sum(step["environment"] is None for step in steps)
        if without_place:
            typer.echo(
                "Steps without scenario and environment, to be named by annotators: "
                f"{without_place}"
            )
        num_videos = len({step["video_id"] for step in steps})
        typer.echo(
            f"{len(steps)} steps of {num_videos} videos, unverified, written to {out}\n"
            f"Next: lmms-egoplan annotate egointent {out} --videos {videos} --db labels.sqlite"
        )
        asking.finish()
