"""Define ``lmms-egoplan data build egothink``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.benchmarks.egothink.commands import print_dimensions
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES
from lmms_egoplan.construction.egothink.frames import (
    BAD_VIDEO,
    EVERY,
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
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.rejections import counted
from lmms_egoplan.text import join_list

_TEXTS: dict[str, str] = module_yaml(__file__)


def build(
    videos: Annotated[Path, typer.Argument(metavar="VIDEOS", help=_TEXTS["videos"])],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")],
    every: Annotated[int, typer.Option(min=1, help=_TEXTS["every"])] = EVERY,
    min_sharpness: Annotated[
        float, typer.Option(min=0, help=_TEXTS["min_sharpness"])
    ] = MIN_SHARPNESS,
    questions: Annotated[
        Path | None, typer.Option(metavar="LABELS", help=_TEXTS["questions"])
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
    if questions is None:
        frames, rejections = build_frames(videos, out, every, min_sharpness)
        unreadable = [rejection.where for rejection in rejections if rejection.reason == BAD_VIDEO]
        reasons = "; ".join(f"{count}: {reason}" for reason, count in counted(rejections))
        typer.echo(f"Rejected, see {out / REJECTIONS}: {reasons or 'nothing'}")
        typer.echo(f"Unreadable: {join_list(unreadable, 3) or 'none'}")
        counts = {"frames": len(frames), "videos": len({frame["video"] for frame in frames})}
        typer.echo(_TEXTS["frames"].format(**counts, out=out))
        return
    written = read_questions(questions, out)
    write_layout(written, out / LAYOUT)
    result = statistics([question for question, _ in written])
    write_whole(out / STATISTICS, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print_dimensions(result["dimensions"])
    typer.echo(
        f"Scenes: {', '.join(f'{scene}: {count}' for scene, count in result['scenes'].items())}"
    )
    typer.echo(_TEXTS["statistics"].format(**result))
    missing = sorted(
        {*DIMENSION_NAMES} - {dimension["split"] for dimension in result["dimensions"]}
    )
    typer.echo(_TEXTS["missing"].format(missing=join_list(missing) or "none"))
    typer.echo(_TEXTS["written"].format(**result, out=out / LAYOUT))
