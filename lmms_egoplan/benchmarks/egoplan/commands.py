"""EgoPlan's own subcommands of ``lmms-egoplan``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.benchmarks.egoplan.printing import ALSO_LISTED, print_cut, print_needed, print_prepared
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.prepared_counts import SkipMissing, Verify

_LABELS = {"task_goals": "task goals"}

Split = Annotated[Literal["val", "test"], typer.Option(help="The split that the file holds.")]
EpicKitchens = Annotated[
    Path | None, typer.Option(help="Folder with EPIC-KITCHENS' RGB frames: `P01/rgb_frames/` and so on.")
]
Ego4d = Annotated[Path | None, typer.Option(help="Folder with Ego4D's videos, `<video_id>.mp4`.")]
EpicVideoInfo = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="EPIC-KITCHENS-100's published list of videos: check ids, lengths and rates with it.",
    ),
]


def prepare(
    annotations: Annotated[Path, typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file.")],
    split: Split,
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    clips: Annotated[
        Path | None,
        typer.Option(
            help="Folder with a ready-cut clip of each question, `<sample_id>.mp4`, in place of the two sources; "
            "`data cut egoplan` makes such clips."
        ),
    ] = None,
    epic_video_info: EpicVideoInfo = None,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
) -> None:
    """Prepare EgoPlan-Bench from its annotations and the two sources' frames, or from ready-cut clips.

    Example: `lmms-egoplan data prepare egoplan EgoPlan_validation.json --split val --epic-kitchens EPIC-KITCHENS
    --ego4d ego4d/video_288p`

    To find damaged frames and go on without their questions, add `--verify --skip-missing`.

    - Annotations: https://github.com/ChenYi99/EgoPlan
    - EPIC-KITCHENS' RGB frames, such as `P01/rgb_frames/P01_13/frame_0000000760.jpg`: https://epic-kitchens.github.io
    - Ego4D's canonical videos at 288p: https://ego4d-data.org
    """
    from lmms_egoplan.benchmarks.egoplan.bench1.prepare import prepare_egoplan

    summary = prepare_egoplan(
        annotations, split, epic_kitchens, ego4d, skip_missing, verify, clips=clips, epic_video_info=epic_video_info
    )
    print_prepared(summary, _LABELS)


@also_writes(*ALSO_LISTED)
def list_videos(
    annotations: Annotated[
        Path, typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file, of either split.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The list of Ego4D's videos to write.")],
    frames: Annotated[
        bool, typer.Option("--frames", help="Also list the frames that tasks may read, as `*_frames.csv` beside it.")
    ] = False,
) -> None:
    """List the videos that EgoPlan-Bench's questions need, for the publishers' downloaders.

    `FILE` gets Ego4D's video ids, one a line, as its downloader's `--video_uid_file` reads them. EPIC-KITCHENS' video
    ids go beside it, into `*_epic_kitchens.txt`.

    Example: `lmms-egoplan data list egoplan EgoPlan_validation.json --out ids.txt --frames`
    """
    from lmms_egoplan.benchmarks.egoplan.bench1.records import read_annotations
    from lmms_egoplan.benchmarks.egoplan.needed_videos import needed_spans

    print_needed(needed_spans(read_annotations(annotations, None)), out, frames)


def cut(
    annotations: Annotated[Path, typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file.")],
    split: Split,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the clips.")],
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    epic_video_info: EpicVideoInfo = None,
    skip_missing: SkipMissing = False,
) -> None:
    """Cut a clip of each question out of the source videos, for `data prepare egoplan --clips`.

    `<sample_id>.mp4` is H.264 and has every frame from the first past action's start to the observation: all that a
    task may read. After a kill, the same command goes on.

    Example: `lmms-egoplan data cut egoplan EgoPlan_validation.json --split val --epic-kitchens EPIC-KITCHENS
    --ego4d ego4d/video_288p --out clips`
    """
    from lmms_egoplan.benchmarks.egoplan.bench1.cutting import cut_clips

    clips = cut_clips(annotations, split, epic_kitchens, ego4d, out, skip_missing, epic_video_info)
    print_cut(clips, out)


def submit(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help="Samples of a run: `*_samples_egoplan_test.jsonl`, `*_samples_egoplan_val.jsonl`; or its predictions "
            "file.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The submission to write, JSON.")],
    split: Annotated[
        Literal["val", "test"] | None,
        typer.Option(help="The split. Without it, that in the name of the samples file; test if there is none."),
    ] = None,
) -> None:
    """Write a submission for EgoPlan's leaderboard, which takes a file of each split, val and test.

    The file is a JSON list of sample_id and label, each id of the split exactly once. The split must be prepared, with
    all of its questions. The samples come from `--tasks egoplan_test` or `--tasks egoplan_val` with `--log_samples`.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_val.jsonl
    --out submission_val.json`
    """
    from lmms_egoplan.benchmarks.egoplan import submission
    from lmms_egoplan.benchmarks.egoplan.bench1.splits import OFFICIAL

    predictions = submission.read_predictions(samples)
    split = split or submission.split_of(samples)
    ids = submission.split_ids(split)
    labels = submission.build_submission(predictions, ids, split)
    submission.write_submission(out, labels)
    typer.echo(
        f"{len(labels)} labels of the {split} split written to {out}. Scored: {len(labels):,} of {len(ids):,} prepared "
        f"questions, {len(labels):,} of {OFFICIAL[split]:,} official ones."
    )
