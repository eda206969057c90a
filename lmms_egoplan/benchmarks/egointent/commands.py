"""EgoIntent's own subcommands of ``lmms-egoplan``."""

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import typer
from rich.console import Console

from lmms_egoplan.benchmarks.egointent.answer_files import judge_stored, read_stored, rows_of, write_judged
from lmms_egoplan.benchmarks.egointent.prepare import LABELS, prepare_egointent
from lmms_egoplan.benchmarks.egointent.protocol import ALIASES
from lmms_egoplan.benchmarks.egointent.records import Record, needed_videos, read_annotations
from lmms_egoplan.benchmarks.egointent.scoring import DEFAULT_JUDGE
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.asking import Asking, Concurrency, EstimateOnly, Out, Prices, RetryRejected, end, written_path
from lmms_egoplan.judging.judge import probe
from lmms_egoplan.judging.settings import language_model
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.prepared_counts import SkipMissing, Verify, print_summary

Annotations = Annotated[
    str,
    typer.Argument(
        metavar="FILE|DIR|hub",
        help="The annotated steps: JSON, JSON Lines, CSV or parquet; a folder that holds the released dataset; or "
        "`hub` for py2279105943/EgoIntent on the hub. Write `./hub` for a file or folder of that name.",
    ),
]


def prepare(
    annotations: Annotations,
    videos: Annotated[Path, typer.Option(help="Folder with `<video_id>.mp4`.")],
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

    Example: `lmms-egoplan data prepare egointent hub --videos ego4d/full_scale`

    To find damaged frames and go on without their steps, add `--verify --skip-missing`.

    - Annotations: https://huggingface.co/datasets/py2279105943/EgoIntent
    - Videos: https://ego4d-data.org
    - The file's form is described in `egointent/FORMAT.md` below the folder that `lmms-egoplan tasks-path` prints.
    """
    pairs = [pair.partition("=") for pair in keys or ()]
    fields = {key: ALIASES.get(field, field) for field, _, key in pairs}
    if wrong := [field for key, field in fields.items() if field not in Record.model_fields or not key]:
        raise typer.BadParameter(
            f"expected FIELD=KEY with a field of {', '.join(Record.model_fields)}; got {', '.join(wrong)}",
            param_hint="--keys",
        )
    summary = prepare_egointent(annotations, videos, skip_missing=skip_missing, verify=verify, given=fields)
    typer.echo("Fields and the keys that they were read from, with the number of records that have the key:")
    for line in summary["mapping"]:
        typer.echo(f"  {line}")
    print_summary(summary, "steps", LABELS)
    if "categories" in summary["counts"]:
        typer.echo("These are Goal-Step steps, not EgoIntent's: scores do not compare with the paper's.")
    if summary["unverified"]:
        typer.echo(f"Steps with labels that nobody has verified: {summary['unverified']}")


def list_videos(
    annotations: Annotations, out: Annotated[Path, typer.Option(metavar="FILE", help="The list of videos to write.")]
) -> None:
    """List the videos that EgoIntent's steps need, as Ego4D's downloader reads them (`--video_uid_file`).

    Example: `lmms-egoplan data list egointent hub --out ids.txt`
    """
    records = read_annotations(annotations)
    videos = needed_videos(records)
    write_whole(out, "\n".join(videos) + "\n")
    typer.echo(
        f"{len(videos)} videos, of which the {len(records)} steps show {sum(videos.values()) / 3600:.2f} hours. "
        f"Written to {out}, for --video_uid_file of Ego4D's downloader"
    )


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
    # Reports load SciPy.
    from lmms_egoplan.benchmarks.egointent.report import EgoIntentReport
    from lmms_egoplan.report.runs import read_judged
    from lmms_egoplan.report.summary import print_runs

    settings = language_model(DEFAULT_JUDGE, asking=Asking(retry_rejected, estimate, prices), concurrency=concurrency)
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
