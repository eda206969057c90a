"""The ``lmms-egoplan`` commands of EgoPlan-Bench and EgoPlan-Bench2."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.options import EstimateOnly, MaxCost, MaxRequests, Prices, Retry
from lmms_egoplan.options import (
    Ego4d,
    EpicKitchens,
    EpicVideoInfo,
    Figures,
    OutFile,
    OutFolder,
    Overwrite,
    Runs,
    Sample,
    SkipMissing,
    Verify,
)
from lmms_egoplan.outputs import output_file, output_folder

if TYPE_CHECKING:
    from lmms_egoplan.benchmarks.egoplan.footage.index import Media
    from lmms_egoplan.benchmarks.egoplan.records import Question

Annotations = Annotated[
    Path, typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file.")
]
Split = Annotated[Literal["val", "test"], typer.Option(help="Split that the file contains.")]
Bench2Annotations = Annotated[
    str,
    typer.Argument(
        metavar="FILE|hub",
        help=(
            "EgoPlan-Bench2's annotation file, or `hub` to download it from "
            "qiulu66/EgoPlan-Bench2 on the hub."
        ),
    ),
]
Clips = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Folder with one clip per question, `<sample_id>.mp4`, instead of the videos. "
            "`data cut` makes them."
        )
    ),
]
Copy = Annotated[
    tuple[str, Path] | None,
    typer.Option(
        metavar="NAME DIR",
        help="Public copy with media, instead of the videos: name (docs/comparing.md) and folder.",
    ),
]
Frames = Annotated[
    bool,
    typer.Option(
        "--frames",
        help="Also write `*_frames.csv` next to the output file: the frames that tasks may read.",
    ),
]


def prepare(
    annotations: Annotations,
    split: Split,
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    clips: Clips = None,
    copy: Copy = None,
    epic_video_info: EpicVideoInfo = None,
    *,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
    figures: Figures = False,
) -> None:
    """Prepare EgoPlan-Bench from its annotations and the two video sources, ready-cut clips or a
    public copy.

    Prints the numbers of Table 2 next to the paper's. `--figures` draws Figs. 4 and 5 and writes
    Table 2 with the differences, of both splits together if the other one is already prepared
    without skipped questions.

    Example: `lmms-egoplan data prepare egoplan EgoPlan_validation.json --split val --epic-kitchens
    EPIC-KITCHENS --ego4d ego4d/video_288p`

    From a public copy: `lmms-egoplan data prepare egoplan EgoPlan_validation.json --split val
    --copy seed-bench-r1 SEED-Bench-R1`

    To find damaged frames and skip their questions, add `--verify --skip-missing`.

    - Annotations: https://github.com/ChenYi99/EgoPlan
    - EPIC-KITCHENS' RGB frames, such as `P01/rgb_frames/P01_13/frame_0000000760.jpg`:
      https://epic-kitchens.github.io
    - Ego4D's canonical videos at 288p: https://ego4d-data.org
    """
    from lmms_egoplan.benchmarks.egoplan.footage.index import Media
    from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
    from lmms_egoplan.prepared_counts import write_figures
    from lmms_egoplan.report.egoplan.prepared import count_splits, print_prepared
    from lmms_egoplan.report.egoplan.statistics import statistics_files

    roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
    media = Media(roots, clips, epic_video_info, skip_missing, verify, copy)
    summary = prepare_egoplan(annotations, split, media)
    print_prepared(summary)
    if figures:
        write_figures(summary, statistics_files(count_splits(annotations, split)))


def prepare_bench2(
    annotations: Bench2Annotations,
    ego4d: Ego4d = None,
    clips: Clips = None,
    copy: Copy = None,
    *,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
) -> None:
    """Prepare EgoPlan-Bench2 from its annotations and Ego4D's videos, ready-cut clips or a public
    copy.

    Example: `lmms-egoplan data prepare egoplan_bench2 hub --ego4d ego4d/video_288p`

    From a public copy: `lmms-egoplan data prepare egoplan_bench2 hub --copy iffyuan ego-plan`

    To find damaged frames and skip their questions, add `--verify --skip-missing`.

    - Annotations: https://huggingface.co/datasets/qiulu66/EgoPlan-Bench2
    - Ego4D's canonical videos at 288p: https://ego4d-data.org
    """
    from lmms_egoplan.benchmarks.egoplan.footage.index import Media
    from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan_bench2
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D
    from lmms_egoplan.report.egoplan.prepared import print_prepared

    media = Media({EGO4D: ego4d}, clips, None, skip_missing, verify, copy)
    print_prepared(prepare_egoplan_bench2(annotations, media))


def list_videos(
    annotations: Annotated[
        Path,
        typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file for either split."),
    ],
    out: OutFile,
    *,
    frames: Frames = False,
    overwrite: Overwrite = False,
) -> None:
    """List the videos that EgoPlan-Bench's questions need, for the publishers' downloaders.

    The output file gets Ego4D's video ids, one per line, for the downloader's `--video_uid_file`.
    EPIC-KITCHENS' video ids are written to `*_epic_kitchens.txt` next to it.

    Example: `lmms-egoplan data list egoplan EgoPlan_validation.json --out ids.txt --frames`
    """
    from lmms_egoplan.benchmarks.egoplan.footage.lists import (
        further_lists,
        write_frames,
        write_videos,
    )
    from lmms_egoplan.benchmarks.egoplan.footage.sources import needed_frames
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, read_annotations

    with output_file(out, [annotations], overwrite=overwrite, also=further_lists(out)):
        videos = needed_frames(read_annotations(annotations, None))
        for source in (EGO4D, EPIC_KITCHENS):
            typer.echo(write_videos(videos, source, out))
        if frames:
            typer.echo(write_frames(videos, out))


def list_bench2_videos(
    annotations: Bench2Annotations,
    out: OutFile,
    *,
    frames: Frames = False,
    overwrite: Overwrite = False,
) -> None:
    """List the videos that EgoPlan-Bench2's questions need, for Ego4D's downloader
    (`--video_uid_file`).

    Example: `lmms-egoplan data list egoplan_bench2 hub --out ids.txt`
    """
    from lmms_egoplan.benchmarks.egoplan.footage.lists import (
        further_lists,
        write_frames,
        write_videos,
    )
    from lmms_egoplan.benchmarks.egoplan.footage.sources import needed_frames
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D, read_bench2_annotations

    with output_file(out, [Path(annotations)], overwrite=overwrite, also=further_lists(out)):
        videos = needed_frames(read_bench2_annotations(annotations))
        typer.echo(write_videos(videos, EGO4D, out))
        if frames:
            typer.echo(write_frames(videos, out))


def cut(
    annotations: Annotations,
    split: Split,
    out: OutFolder,
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    epic_video_info: EpicVideoInfo = None,
    *,
    skip_missing: SkipMissing = False,
) -> None:
    """Cut one clip per question from the source videos, for `data prepare egoplan --clips`.

    Each `<sample_id>.mp4` (H.264) contains every frame that a task may read: from the start of the
    first past action to the observation. To resume an interrupted run, repeat the command.

    Example: `lmms-egoplan data cut egoplan EgoPlan_validation.json --split val --epic-kitchens
    EPIC-KITCHENS --ego4d ego4d/video_288p --out clips`
    """
    from lmms_egoplan.benchmarks.egoplan.footage.index import Media
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, read_annotations

    with output_folder(out, "data cut egoplan"):
        roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
        media = Media(roots, epic_video_info=epic_video_info, skip_missing=skip_missing)
        _cut(annotations, read_annotations(annotations, split), media, out)


def cut_bench2(
    annotations: Bench2Annotations,
    out: OutFolder,
    ego4d: Ego4d = None,
    *,
    skip_missing: SkipMissing = False,
) -> None:
    """Cut one clip per question from the source videos, for `data prepare egoplan_bench2 --clips`.

    Each `<sample_id>.mp4` (H.264) contains every frame that a task may read: from the task's start
    to the observation. To resume an interrupted run, repeat the command.

    Example: `lmms-egoplan data cut egoplan_bench2 hub --ego4d ego4d/video_288p --out clips`
    """
    from lmms_egoplan.benchmarks.egoplan.footage.index import Media
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D, read_bench2_annotations

    with output_folder(out, "data cut egoplan_bench2"):
        questions = read_bench2_annotations(annotations)
        _cut(annotations, questions, Media({EGO4D: ego4d}, skip_missing=skip_missing), out)


def _cut(
    annotations: str | Path, questions: "Sequence[Question]", media: "Media", out: Path
) -> None:
    """Cut the clips, and print their number and the missing ones."""
    from lmms_egoplan.benchmarks.egoplan.footage.clips import cut_clips
    from lmms_egoplan.benchmarks.egoplan.footage.index import find_media

    found_media = find_media(annotations, questions, media)
    clips = cut_clips(
        annotations, questions, found_media.footage, out, skip_missing=media.skip_missing
    )
    if found_media.message:
        typer.echo(found_media.message, err=True)
    for sample_id, reason in clips.failed.items():
        typer.echo(f"sample_id {sample_id}: {reason}", err=True)
    num_clips = clips.cut + clips.reused
    typer.echo(
        f"{num_clips} of {len(questions)} clips, {clips.seconds / 3600:.2f} hours, "
        f"{clips.size / 1e6:.1f} MB, in {out} ({clips.cut} new, {clips.reused} reused, "
        f"{len(questions) - num_clips} skipped)"
    )


def judge(
    runs: Runs,
    out: OutFolder,
    sample: Sample = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
) -> None:
    """Have a judge name the types of failures in a run's wrong answers (Fig. 6 of the paper).

    The judge sees what the page of `annotate egoplan-failures` shows, without frames if a
    question's video is missing. The prompt is this project's. With the same runs and `--sample`,
    both commands draw the same answers: pass `report` both folders to compare the judge with
    people.

    Set the endpoint with LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY, and the model
    with LMMS_EGOPLAN_JUDGE_MODEL. It must read images (default: gpt-4o-2024-11-20). Replies are
    stored as they arrive: to resume an interrupted run, repeat the command.

    Example: `lmms-egoplan judge egoplan runs/my-model --sample 100 --out judged-failures`
    """
    from lmms_egoplan.jsonl import json_lines
    from lmms_egoplan.judging.prices import read_prices
    from lmms_egoplan.judging.printing import end, finish_estimate, print_cost
    from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model
    from lmms_egoplan.judging.usage import LlmOptions, LlmUsage
    from lmms_egoplan.report.egoplan import failures
    from lmms_egoplan.report.egoplan.wrong_answers import wrong_answers
    from lmms_egoplan.report.samples import MARK, write_folder

    with output_folder(out, "judge egoplan", [MARK, failures.LABELS]):
        options = LlmOptions(
            retry_rejected=retry_rejected,
            is_estimate=estimate,
            prices=read_prices(prices),
            probes=True,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        settings = language_model(DEFAULT_MODEL, usage=LlmUsage(options))
        judged = list(failures.judge_failures(wrong_answers(runs, sample), settings))
        finish_estimate(settings.usage)
        write_folder(
            out,
            "egoplan",
            {failures.LABELS: json_lines(failure.model_dump() for failure in judged)},
        )
        for row in failures.share_rows(judged):
            typer.echo(f"{row['model']}, {row['type']}: {row['count']} of {row['typed']} answers")
        print_cost(settings.usage)
        end(out / failures.LABELS, sum(failure.type is None for failure in judged), len(judged))


def submit(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help=(
                "A run's `*_samples_egoplan_test.jsonl` or `*_samples_egoplan_val.jsonl`, or "
                "its predictions file."
            ),
        ),
    ],
    out: OutFile,
    split: Annotated[
        Literal["val", "test"] | None,
        typer.Option(
            help=(
                "Split of the submission. Default: the split in the samples file's name, "
                "otherwise test."
            )
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a submission for EgoPlan's leaderboard, which takes one file per split (val, test).

    The file is a JSON list of sample_id and label, with each id of the split exactly once. First
    prepare the split with all of its questions. The samples come from `--tasks egoplan_test` or
    `--tasks egoplan_val` with `--log_samples`.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_val.jsonl
    --out submission_val.json`
    """
    from lmms_egoplan.benchmarks.egoplan import submission
    from lmms_egoplan.benchmarks.splits import EGOPLAN

    with output_file(out, [samples], overwrite=overwrite):
        predictions = submission.read_predictions(samples)
        split = split or submission.split_of(samples)
        ids = submission.split_ids(split)
        labels = submission.build_submission(predictions, ids, split)
        write_whole(out, json.dumps(labels, indent=1) + "\n")
        typer.echo(
            f"{len(labels)} labels for the {split} split written to {out}. They cover "
            f"{len(labels):,} of {len(ids):,} prepared questions and {len(labels):,} of "
            f"{EGOPLAN.official[split]:,} official ones."
        )
