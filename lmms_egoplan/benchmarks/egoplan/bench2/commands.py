"""EgoPlan-Bench2's own subcommands of ``lmms-egoplan``."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.benchmarks.egoplan.printing import ALSO_LISTED, print_cut, print_needed, print_prepared
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.prepared_counts import SkipMissing, Verify

Annotations = Annotated[
    str,
    typer.Argument(
        metavar="FILE|hub",
        help="EgoPlan-Bench2's annotation file; `hub` for that of qiulu66/EgoPlan-Bench2 on the hub.",
    ),
]
Ego4d = Annotated[Path | None, typer.Option(help="Folder with Ego4D's videos, `<video_id>.mp4`.")]


def prepare(
    annotations: Annotations,
    ego4d: Ego4d = None,
    clips: Annotated[
        Path | None,
        typer.Option(
            help="Folder with a ready-cut clip of each question, `<sample_id>.mp4`, in place of the videos; "
            "`data cut egoplan_bench2` makes such clips."
        ),
    ] = None,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
) -> None:
    """Prepare EgoPlan-Bench2 from its annotations and Ego4D's videos, or from ready-cut clips.

    Example: `lmms-egoplan data prepare egoplan_bench2 hub --ego4d ego4d/video_288p`

    To find damaged frames and go on without their questions, add `--verify --skip-missing`.

    - Annotations: https://huggingface.co/datasets/qiulu66/EgoPlan-Bench2
    - Ego4D's canonical videos at 288p: https://ego4d-data.org
    """
    from lmms_egoplan.benchmarks.egoplan.bench2.prepare import prepare_egoplan_bench2

    print_prepared(prepare_egoplan_bench2(annotations, ego4d, skip_missing, verify, clips), {})


@also_writes(*ALSO_LISTED)
def list_videos(
    annotations: Annotations,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The list of videos to write.")],
    frames: Annotated[
        bool, typer.Option("--frames", help="Also list the frames that tasks may read, as `*_frames.csv` beside it.")
    ] = False,
) -> None:
    """List the videos that EgoPlan-Bench2's questions need, as Ego4D's downloader reads them (`--video_uid_file`).

    Example: `lmms-egoplan data list egoplan_bench2 hub --out ids.txt`
    """
    from lmms_egoplan.benchmarks.egoplan.bench2.records import read_annotations
    from lmms_egoplan.benchmarks.egoplan.needed_videos import needed_spans
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D

    print_needed(needed_spans(read_annotations(annotations)), out, frames, [EGO4D])


def cut(
    annotations: Annotations,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the clips.")],
    ego4d: Ego4d = None,
    skip_missing: SkipMissing = False,
) -> None:
    """Cut a clip of each question out of the source videos, for `data prepare egoplan_bench2 --clips`.

    `<sample_id>.mp4` is H.264 and has every frame from the task's start to the observation: all that a task may read.
    After a kill, the same command goes on.

    Example: `lmms-egoplan data cut egoplan_bench2 hub --ego4d ego4d/video_288p --out clips`
    """
    from lmms_egoplan.benchmarks.egoplan.bench2.prepare import find_sources
    from lmms_egoplan.benchmarks.egoplan.bench2.records import read_annotations
    from lmms_egoplan.benchmarks.egoplan.cutting import cut_clips

    records = read_annotations(annotations)
    footage, missing = find_sources(records, ego4d, skip_missing)
    print_cut(cut_clips(annotations, records, footage, missing, out, skip_missing), out)
