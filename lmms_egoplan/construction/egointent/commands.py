"""``lmms-egoplan data build egointent``."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.construction.egointent.build import build as build_from_narrations
from lmms_egoplan.construction.egointent.build import rejections_path, write
from lmms_egoplan.construction.egointent.goalstep import absence, build_records, write_records
from lmms_egoplan.judging.asking import Asking, EstimateOnly, Llm, Prices, RetryRejected
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.rejections import counted


@also_writes("{stem}.rejections.jsonl")
def build(
    goalstep: Annotated[Path, typer.Argument(metavar="GOALSTEP", help="Ego4D Goal-Step's annotation file.")],
    videos: Annotated[
        Path, typer.Option(help="Folder with `<video_uid>.mp4`; steps of videos that are not there are left out.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, JSON lines.")],
    narrations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ego4D's `narration.json`: make steps at the times of narrations, as the paper makes them.",
        ),
    ] = None,
    llm: Llm = None,
    before_end: Annotated[
        float | None,
        typer.Option(help="Without --narrations: seconds before the end of a step at which it is cut; 0.5 by default."),
    ] = None,
    retry_rejected: RetryRejected = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
) -> None:
    """Make records of EgoIntent's form from Ego4D, whose labels nobody has verified.

    With --narrations, steps end at a narration's time, as the paper's. A language model, set as a judge is set
    (LMMS_EGOPLAN_JUDGE_BASE_URL, LMMS_EGOPLAN_JUDGE_API_KEY), proposes the procedural intent and the next step. People
    revise them on the page of `annotate egointent`. Replies are kept: after a kill, the same command goes on, and pays
    for no reply twice. If more than 10 % of the prompts have no usable reply, the exit code is 1; the output is written
    anyway.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --narrations narration.json
    --videos ego4d/full_scale --llm gpt-4o-2024-11-20 --out steps.jsonl`

    Without --narrations, they are Goal-Step steps, with Goal-Step's own texts. They are not EgoIntent's steps, and
    their scores do not compare with the paper's.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --videos ego4d/full_scale --out steps.jsonl`

    A video id that begins with `grp-` is that of a grouped video: several Ego4D videos joined end to end. Ego4D's
    downloader brings all videos and the annotation file: `ego4d --datasets full_scale annotations --benchmarks goalstep
    -o DIR`

    - Goal-Step: https://github.com/facebookresearch/ego4d-goalstep
    """
    asking = Asking(retry_rejected, estimate, prices)
    if narrations is None:
        if llm is not None or retry_rejected or estimate:
            raise typer.BadParameter("only with --narrations", param_hint="--llm, --retry-rejected, --estimate")
        _build_goalstep_steps(goalstep, videos, out, 0.5 if before_end is None else before_end)
        return
    if before_end is not None:
        raise typer.BadParameter("not with --narrations: a step ends at its time", param_hint="--before-end")
    built = build_from_narrations(narrations, goalstep, videos, llm, asking)
    write(built, out)
    reasons = "; ".join(f"{count}: {reason}" for reason, count in counted(built.rejections))
    typer.echo(f"Left out, see {rejections_path(out)}: {reasons or 'nothing'}")
    if unplaced := sum(step["environment"] is None for step in built.steps):
        typer.echo(f"Steps without scenario and environment, which people name on the page: {unplaced}")
    num_videos = len({step["video_id"] for step in built.steps})
    typer.echo(
        f"{len(built.steps)} steps of {num_videos} videos, which nobody has verified, written to {out}\n"
        f"Next: lmms-egoplan annotate egointent {out} --videos {videos} --db labels.sqlite"
    )
    asking.check_losses()


def _build_goalstep_steps(goalstep: Path, videos: Path, out: Path, before_end: float) -> None:
    built = build_records(goalstep, videos, before_end)
    write_records(built.records, out)
    reasons = "; ".join(f"{count}: {reason}" for reason, count in built.left_out.most_common())
    num_videos = len({record.video_id for record in built.records})
    typer.echo(
        f"{len(built.records)} Goal-Step steps of {num_videos} videos, all unverified, written to {out}\n"
        f"Left out: {reasons or 'none'}"
    )
    if built.absent:
        typer.echo(f"Videos {absence(built.absent, built.num_videos)}")
