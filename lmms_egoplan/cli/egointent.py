"""Define EgoIntent's subcommands of ``lmms-egoplan``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.options import (
    Batch,
    Concurrency,
    EstimateOnly,
    MaxCost,
    MaxRequests,
    Prices,
    Retry,
)
from lmms_egoplan.options import Figures, OutFile, Overwrite, SkipMissing, Verify
from lmms_egoplan.outputs import output_file

Annotations = Annotated[
    str,
    typer.Argument(
        metavar="FILE|DIR|hub",
        help=(
            "Annotated steps: a file (JSON, JSON Lines, CSV or parquet), a folder with the "
            "released dataset, or `hub` for py2279105943/EgoIntent on the Hugging Face hub. To "
            "read a local file or folder named hub, use `./hub`."
        ),
    ),
]

Leakage = Annotated[
    bool, typer.Option("--leakage", help="Prepare the split `leakage`: with frames after the cut.")
]


def prepare(
    annotations: Annotations,
    videos: Annotated[Path, typer.Option(help="Folder with `<video_id>.mp4`.")],
    keys: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=KEY",
            help=(
                "Read a field of FORMAT.md from this key, for example `start_sec=begin`. "
                "Repeat for several fields."
            ),
        ),
    ] = None,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
    leakage: Leakage = False,
    figures: Figures = False,
) -> None:
    """Prepare EgoIntent from its annotated steps and their videos.

    Prints the key that each field was read from. `--figures` draws Figs. 3, 4 and 6.

    Example: `lmms-egoplan data prepare egointent hub --videos ego4d/full_scale`

    To find damaged frames and skip their steps, add `--verify --skip-missing`.

    - Annotations: https://huggingface.co/datasets/py2279105943/EgoIntent
    - Videos: https://ego4d-data.org
    - File format: `egointent/FORMAT.md` in the folder that `lmms-egoplan tasks-path` prints.
    """
    from lmms_egoplan.benchmarks.egointent.annotation_files import load
    from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
    from lmms_egoplan.benchmarks.egointent.records import check_records
    from lmms_egoplan.prepared_counts import write_figures
    from lmms_egoplan.report.egointent.prepared import print_prepared
    from lmms_egoplan.report.egointent.statistics import statistics_files

    field_by_key = _read_keys(keys or [])
    summary = prepare_egointent(
        annotations,
        videos,
        skip_missing=skip_missing,
        verify=verify,
        field_by_key=field_by_key,
        leakage=leakage,
    )
    print_prepared(summary, leakage=leakage)
    if figures:
        steps = check_records(annotations, load(annotations, field_by_key))
        write_figures(summary, statistics_files(steps))


def _read_keys(keys: Sequence[str]) -> dict[str, str]:
    """Return the field for each key.

    Args:
        keys: Values of ``--keys``: ``FIELD=KEY``.

    Raises:
        typer.BadParameter: A field is unknown, or a key is missing.
    """
    from lmms_egoplan.benchmarks.egointent.prompts import ALIASES
    from lmms_egoplan.benchmarks.egointent.records import Record

    field_by_key: dict[str, str] = {}
    for pair in keys:
        field, _, key = pair.partition("=")
        field_by_key[key] = ALIASES.get(field, field)
    wrong = [
        field for key, field in field_by_key.items() if field not in Record.model_fields or not key
    ]
    if wrong:
        raise typer.BadParameter(
            f"expected FIELD=KEY with a field of {', '.join(Record.model_fields)}; got "
            f"{', '.join(wrong)}",
            param_hint="--keys",
        )
    return field_by_key


def list_videos(
    annotations: Annotations,
    out: OutFile,
    overwrite: Overwrite = False,
) -> None:
    """List the videos that EgoIntent's steps need, for Ego4D's downloader (`--video_uid_file`).

    Example: `lmms-egoplan data list egointent hub --out ids.txt`
    """
    from lmms_egoplan.benchmarks.egointent.records import needed_videos, read_annotations

    with output_file(out, [Path(annotations)], overwrite=overwrite):
        records = read_annotations(annotations)
        videos = needed_videos(records)
        write_whole(out, "\n".join(videos) + "\n")
        typer.echo(
            f"{len(records)} steps in {len(videos)} videos; the steps show "
            f"{sum(videos.values()) / 3600:.2f} hours. Video ids written to {out}; pass it to "
            "Ego4D's downloader as --video_uid_file"
        )


def judge(
    samples: Annotated[
        list[Path],
        typer.Argument(
            help=(
                "Answers to judge: folders with runs, sample files (`*_samples_egointent*.jsonl`), "
                "JSON Lines with step_id and answer, or files that this command wrote."
            ),
            metavar="SAMPLES",
        ),
    ],
    out: OutFile,
    concurrency: Concurrency = None,
    retry_rejected: Retry = False,
    batch: Batch = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
    overwrite: Overwrite = False,
) -> None:
    """Judge stored answers to EgoIntent's steps, from a run or from another framework.

    Samples of `egointent` and `egointent_v1` are judged with the prompts of their task, other
    answers with those of `egointent`. Samples of `egointent_diagnostics` are rejected, because
    their judge needs the frames.

    Set the endpoint with LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY, and the model
    with LMMS_EGOPLAN_JUDGE_MODEL. Judgements are stored as they arrive. To resume an interrupted
    run, repeat the command.

    If some answers cannot be judged and FILE exists, FILE.partial is written instead.

    `report` and `show` read the output. To judge within the harness instead, set a judge and repeat
    the run's command with `--use_cache`; no answer is generated again.

    Example: `lmms-egoplan judge egointent runs/my-model --out judged.jsonl`
    """
    from rich.console import Console

    from lmms_egoplan.benchmarks.base import EGOINTENT
    from lmms_egoplan.benchmarks.egointent.judge import DEFAULT_JUDGE
    from lmms_egoplan.judging.prices import read_prices
    from lmms_egoplan.judging.printing import (
        RETRY_FILE,
        end,
        finish_estimate,
        partial_path,
        print_cost,
        written_path,
    )
    from lmms_egoplan.judging.settings import language_model
    from lmms_egoplan.judging.usage import LlmOptions, LlmUsage
    from lmms_egoplan.report.egointent.answer_files import (
        judge_stored,
        read_stored,
        rows_of,
        write_judged,
    )
    from lmms_egoplan.report.judged import read_judged
    from lmms_egoplan.report.terminal import print_runs

    with output_file(out, samples, overwrite=overwrite, also=[partial_path(out)]):
        options = LlmOptions(
            retry_rejected=retry_rejected,
            is_estimate=estimate,
            prices=read_prices(prices, batch=batch),
            batch=batch,
            probes=True,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        settings = language_model(DEFAULT_JUDGE, None, LlmUsage(options), concurrency)
        stored = read_stored(samples)
        rows = rows_of(stored)
        judged = judge_stored(stored, rows, settings)
        finish_estimate(settings.usage)
        unjudged = sum(None in step.rated.values() for step in judged)
        written = written_path(out, unjudged)
        write_judged(written, stored, judged)
        benchmarks = [EGOINTENT]
        print_runs([read_judged(written, benchmarks)], Console(), benchmarks)
        print_cost(settings.usage)
        end(written, unjudged, len(judged), retry=RETRY_FILE)
