"""Define ``lmms-egoplan data build egothink``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES
from lmms_egoplan.construction.egothink.frames import (
    BAD_VIDEO,
    EVERY,
    FRAMES,
    MIN_SHARPNESS,
    REJECTIONS,
    build_frames,
)
from lmms_egoplan.construction.egothink.layout import (
    LAYOUT,
    STATISTICS,
    read_questions,
    statistics,
    write_layout,
)
from lmms_egoplan.files import write_whole
from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.prepared_counts import print_dimensions
from lmms_egoplan.rejections import counted
from lmms_egoplan.text import join_list


def build(
    videos: Annotated[
        Path,
        typer.Argument(
            metavar="VIDEOS", help="Folder of videos, of folders of images, or of images."
        ),
    ],
    out: OutFolder,
    every: Annotated[
        int,
        typer.Option(
            min=1,
            help=(
                "Sample a frame every so many frames. For folders of images that are not "
                "consecutive frames, use 1."
            ),
        ),
    ] = EVERY,
    min_sharpness: Annotated[
        float,
        typer.Option(
            min=0,
            help=(
                "Lowest sharpness of a frame: the variance of the Laplacian, at 512 pixels. "
                "98 % of EgoThink's images are above the default."
            ),
        ),
    ] = MIN_SHARPNESS,
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="LABELS",
            help=(
                "People's questions, from `annotate export`. Writes the benchmark, with the "
                "frames that are in the output folder; VIDEOS is not read."
            ),
        ),
    ] = None,
) -> None:
    """Build questions in EgoThink's format from first-person videos, following the paper.

    First, the command samples frames, and keeps at most two clear ones of each video that are not
    alike. People then write and review questions with `annotate egothink-questions`. With their
    export, the command writes the benchmark in the layout of the release, and its statistics (Table
    4, Fig. 3).

    To resume an interrupted run, repeat the command.

    Example: `lmms-egoplan data build egothink ego4d/full_scale --out built`

    Example: `lmms-egoplan data build egothink ego4d/full_scale --out built --questions labels`
    """
    names = [FRAMES, REJECTIONS] if questions is None else [STATISTICS]
    with output_folder(out, "data build egothink", names):
        if questions is None:
            frames, rejections = build_frames(videos, out, every, min_sharpness)
            unreadable = [
                rejection.where for rejection in rejections if rejection.reason == BAD_VIDEO
            ]
            reasons = "; ".join(f"{count}: {reason}" for reason, count in counted(rejections))
            typer.echo(f"Rejected, see {out / REJECTIONS}: {reasons or 'nothing'}")
            typer.echo(f"Unreadable: {join_list(unreadable, 3) or 'none'}")
            num_videos = len({frame["video"] for frame in frames})
            typer.echo(f"{len(frames)} frames of {num_videos} videos written to {out}")
            typer.echo(
                f"Next: lmms-egoplan annotate egothink-questions {out} --db questions.sqlite"
            )
            return
        written = read_questions(questions, out)
        write_layout(written, out / LAYOUT)
        result = statistics([question for question, _ in written])
        write_whole(out / STATISTICS, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        print_dimensions(result["dimensions"])
        scenes = ", ".join(f"{scene}: {count}" for scene, count in result["scenes"].items())
        typer.echo(f"Scenes: {scenes}")
        typer.echo(
            f"Other scenes, each below 1 %: {result['other_scenes']} (paper: 13), with "
            f"{result['other_questions']} questions. The paper has 700 questions on images of 595 "
            "videos."
        )
        typer.echo(
            "Concepts, scenes and videos: different ones, as people named them. Words and question "
            "types: as data prepare egothink counts them."
        )
        with_questions = {dimension["split"] for dimension in result["dimensions"]}
        missing = sorted(set(DIMENSION_NAMES) - with_questions)
        typer.echo(
            "Dimensions without a question (data prepare egothink needs all twelve): "
            f"{join_list(missing) or 'none'}"
        )
        typer.echo(
            f"{result['questions']} questions on images of {result['videos']} videos written to "
            f"{out / LAYOUT}, {result['by_lead']} of them accepted by the lead, not by all "
            "reviewers"
        )
