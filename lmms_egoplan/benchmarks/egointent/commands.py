"""EgoIntent's own subcommands of ``lmms-egoplan``."""

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import typer

from lmms_egoplan.annotation.options import Annotators, CutFirst, Db, Height, Host, Port
from lmms_egoplan.judging.asking import Asking, EstimateOnly, Llm, Prices, RetryRejected
from lmms_egoplan.judging.later import Concurrency, Out, end, judge_for, written_path
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.prepared_counts import SkipMissing, Verify, print_summary


def prepare(
    videos: Annotated[Path, typer.Option(help="Folder with `<video_id>.mp4`.")],
    annotations: Annotated[
        str | None,
        typer.Argument(metavar="[ANNOTATIONS]", help="The annotated steps: JSON, JSON Lines, CSV or parquet."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="hub|DIR",
            help="In place of ANNOTATIONS: the dataset py2279105943/EgoIntent on the hub, or a folder that holds it. "
            "Write `./hub` for a folder of that name.",
        ),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=KEY",
            help="The key that the file has for a field of FORMAT.md, such as `start_sec=begin`. Repeat for several.",
        ),
    ] = None,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
) -> None:
    """Prepare EgoIntent from its annotated steps and their videos.

    Which key was taken for which field is printed.

    Example: `lmms-egoplan data prepare egointent --source hub --videos ego4d/full_scale`

    To find damaged frames and go on without their steps, add `--verify --skip-missing`.

    - Annotations: https://huggingface.co/datasets/py2279105943/EgoIntent
    - Videos: https://ego4d-data.org
    - The file's form is described in `egointent/FORMAT.md` below the folder that `lmms-egoplan tasks-path` prints.
    """
    from lmms_egoplan.benchmarks.egointent.prepare import LABELS, prepare_egointent
    from lmms_egoplan.benchmarks.egointent.protocol import ALIASES
    from lmms_egoplan.benchmarks.egointent.record_files import HUB
    from lmms_egoplan.benchmarks.egointent.records import Record

    if (annotations is None) == (source is None):
        raise typer.BadParameter("give either ANNOTATIONS or --source", param_hint="ANNOTATIONS, --source")
    # A file named `hub` is a file.
    given = f"./{annotations}" if annotations == HUB else annotations or source
    pairs = [pair.partition("=") for pair in keys or ()]
    fields = {key: ALIASES.get(field, field) for field, _, key in pairs}
    if wrong := [field for key, field in fields.items() if field not in Record.model_fields or not key]:
        raise typer.BadParameter(
            f"expected FIELD=KEY with a field of {', '.join(Record.model_fields)}; got {', '.join(wrong)}",
            param_hint="--keys",
        )
    summary = prepare_egointent(given, videos, skip_missing, verify, fields)
    typer.echo("Fields and the keys that they were read from, with the number of records that have the key:")
    for line in summary["mapping"]:
        typer.echo(f"  {line}")
    print_summary(summary, "steps", LABELS)
    if "categories" in summary["counts"]:
        typer.echo("These are Goal-Step steps, not EgoIntent's: scores do not compare with the paper's.")
    if summary["unverified"]:
        typer.echo(f"Steps with labels that nobody has verified: {summary['unverified']}")


def list_videos(
    annotations: Annotated[
        str,
        typer.Option(metavar="FILE", help="The annotated steps, a file or a folder; `hub` for the hub's."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The list of videos to write.")],
) -> None:
    """List the videos that EgoIntent's steps need, as Ego4D's downloader reads them (`--video_uid_file`).

    Example: `lmms-egoplan data list egointent --annotations hub --out ids.txt`
    """
    from lmms_egoplan.benchmarks.egointent.records import needed_videos, read_annotations
    from lmms_egoplan.storage import write_whole

    records = read_annotations(annotations)
    videos = needed_videos(records)
    write_whole(out, "\n".join(videos) + "\n")
    typer.echo(
        f"{len(videos)} videos, of which the {len(records)} steps show {sum(videos.values()) / 3600:.2f} hours. "
        f"Written to {out}, for --video_uid_file of Ego4D's downloader"
    )


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
    else:
        if before_end is not None:
            raise typer.BadParameter("not with --narrations: a step ends at its time", param_hint="--before-end")
        _build_from_narrations(narrations, goalstep, videos, out, llm, asking)
        asking.check_losses()


def _build_goalstep_steps(goalstep: Path, videos: Path, out: Path, before_end: float) -> None:
    from lmms_egoplan.benchmarks.egointent.goalstep import absence, build_records, write_records

    built = build_records(goalstep, videos, before_end)
    write_records(built.records, out)
    reasons = "; ".join(f"{count}: {reason}" for reason, count in built.left_out.most_common())
    typer.echo(
        f"{len(built.records)} Goal-Step steps of {len({record.video_id for record in built.records})} videos, all "
        f"unverified, written to {out}\nLeft out: {reasons or 'none'}"
    )
    if built.absent:
        typer.echo(f"Videos {absence(built.absent, built.videos)}")


def _build_from_narrations(
    narrations: Path, goalstep: Path, videos: Path, out: Path, llm: str | None, asking: Asking
) -> None:
    from lmms_egoplan.benchmarks.egointent.construction.build import build, rejections_path, write

    built = build(narrations, goalstep, videos, llm, asking=asking)
    write(built, out)
    reasons = "; ".join(f"{count}: {reason}" for reason, count in built.left_out())
    typer.echo(f"Left out, see {rejections_path(out)}: {reasons or 'nothing'}")
    if built.unplaced:
        typer.echo(f"Steps without scenario and environment, which people name on the page: {built.unplaced}")
    typer.echo(
        f"{len(built.steps)} steps of {built.num_videos()} videos, which nobody has verified, written to {out}\n"
        f"Next: lmms-egoplan annotate egointent --items {out} --videos {videos} --db labels.sqlite"
    )


def annotate(
    items: Annotated[
        Path,
        typer.Option(
            metavar="ANNOTATIONS",
            help="Steps to revise, in the form of FORMAT.md, such as `data build egointent` makes.",
        ),
    ],
    videos: Annotated[Path, typer.Option(help="Folder with `<video_id>.mp4`.")],
    db: Db,
    annotators: Annotators = None,
    skip_missing: SkipMissing = False,
    cut_first: CutFirst = False,
    height: Height = 480,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people revise the labels and the cut of EgoIntent's steps, and check them for hindsight.

    One person revises a step, another one reviews it; the lead decides where they differ.

    Example: `lmms-egoplan annotate egointent --items steps.jsonl --videos ego4d/full_scale --db labels.sqlite`
    """
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.benchmarks.egointent.annotation import FLOW, read_items

    store = open_store(
        FLOW, db, lambda _: read_items(items, videos, skip_missing), str(items), annotators, skip_missing=skip_missing
    )
    serve(store, FLOW, host, port, cuts=cut_first, height=height)


@also_writes("{name}.partial")
def judge(
    samples: Annotated[
        list[Path],
        typer.Argument(
            help="Answers: a folder with runs, their files `*_samples_egointent*.jsonl`, JSON lines with step_id and "
            "answer, or files that this command wrote.",
            metavar="SAMPLES",
        ),
    ],
    out: Out,
    concurrency: Concurrency = None,
    retry_rejected: RetryRejected = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
) -> None:
    """Judge answers to EgoIntent's steps, from a run or from another framework.

    Samples of `egointent` and `egointent_v1` are judged by the prompts of their task, other answers by those of
    `egointent`. The judge of `egointent_diagnostics` needs the frames: its samples are refused.
    LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY set the endpoint, LMMS_EGOPLAN_JUDGE_MODEL the model.
    Judgements are stored as they come: after an interruption, the same command asks for the rest only.

    `report` and `show` take the file. To judge a run in the harness instead, set a judge and repeat its command with
    `--use_cache`: no answer is generated again.

    Example: `lmms-egoplan judge egointent runs/my-model --out judged.jsonl`
    """
    from rich.console import Console

    from lmms_egoplan.benchmarks.egointent.report import EgoIntentReport
    from lmms_egoplan.benchmarks.egointent.scoring import DEFAULT_JUDGE
    from lmms_egoplan.benchmarks.egointent.stored_steps import judge_stored, read_stored, rows_of, write_judged
    from lmms_egoplan.judging import probe
    from lmms_egoplan.report.judged import read_judged
    from lmms_egoplan.report.terminal import print_runs

    settings = judge_for(DEFAULT_JUDGE, concurrency, Asking(retry_rejected, estimate, prices))
    stored = read_stored(samples)
    rows = rows_of(stored)
    if not estimate:
        probe(settings)
    judged = judge_stored(stored, rows, settings)
    settings.asking.finish_estimate()
    unjudged = sum(None in step.rated.values() for step in judged)
    written = written_path(out, unjudged)
    write_judged(written, stored, judged)
    own = [SimpleNamespace(name="egointent", load_report=lambda: EgoIntentReport)]
    print_runs([read_judged(written, own)], Console(), own)
    end(written, unjudged, len(judged))


def audit(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Folder that `annotate export` has written.")],
) -> None:
    """Show how EgoIntent's labels and cuts were changed and how long steps are, beside the paper's figures.

    Rates are in percent, times in seconds.

    Example: `lmms-egoplan audit egointent labels`
    """
    from rich.console import Console
    from rich.table import Column, Table

    from lmms_egoplan.benchmarks.egointent.audit import read_audit

    table = Table("rate", *(Column(name, justify="right") for name in ("here", "count", "paper")), "in the paper")
    for rate in read_audit(labels):
        where = "; ".join(text for text in (rate.printed, rate.where) if text)
        table.add_row(rate.rate.replace("_", " "), rate.value, f"{rate.count} of {rate.of}", rate.paper, where)
    Console().print(table)


COMMANDS = {
    "data prepare egointent": prepare,
    "data list egointent": list_videos,
    "data build egointent": build,
    "annotate egointent": annotate,
    "judge egointent": judge,
    "audit egointent": audit,
}
HELPS = {
    "data build": "`lmms-egoplan data build egointent goalstep_valid_public.json --videos ego4d/full_scale "
    "--out steps.jsonl`",
    "audit": "`lmms-egoplan audit egointent labels`",
    "judge, defaults": "EgoIntent Qwen/Qwen3-32B, egointent_v1 Qwen/Qwen3-32B, "
    "EgoIntent's diagnostics Qwen/Qwen3-VL-32B-Instruct",
}
