"""What commands print that prepare questions, list their videos, or cut clips of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.files import write_whole
from lmms_egoplan.prepared_counts import print_summary

if TYPE_CHECKING:
    from lmms_egoplan.benchmarks.egoplan.cutting import CutClips
    from lmms_egoplan.benchmarks.egoplan.needed_videos import Spans

# What lists of videos write next to their file.
ALSO_LISTED = ("{stem}_epic_kitchens{suffix}", "{stem}_frames.csv")
# What the fits of `clips.Fit` mean.
_FITS = {
    "labelled": "cut by lmms-egoplan. Their frames are those of the source, but for H.264's loss",
    "frame for frame": "as many frames as the progress, so each frame stands for one of the source",
    "other rate": "as long as the progress, with another number of frames. Frames of the same times are shown, nearly",
    "shorter": "shorter than the progress. The clip is taken for all of it, and its last frame for the observation",
    "cut off": "longer than the progress. The clip is taken to begin with the first past action; what lies behind the "
    "observation is not shown",
}


def print_prepared(summary: dict[str, Any], labels: Mapping[str, str]) -> None:
    """Print the summary of a prepared split, what differs where questions are shown out of ready clips, and warnings.

    Args:
        labels: of its counts, see `print_counts`.
    """
    print_summary(summary, "questions", labels)
    if "clips" in summary:
        typer.echo(f"Media: {summary['media']}, which results tell as media.")
        for fit, count in summary["clips"].items():
            typer.echo(f"  {count}: {_FITS[fit]}")
    for warning in summary.get("warnings", ()):
        typer.echo(f"Warning: {warning}", err=True)


def print_cut(clips: "CutClips", out: Path) -> None:
    """Print what was cut into a folder, and what was not."""
    if clips.missing:
        typer.echo(clips.missing, err=True)
    for sample_id, reason in clips.failed.items():
        typer.echo(f"sample_id {sample_id}: {reason}", err=True)
    done = clips.cut + clips.kept
    typer.echo(
        f"{done} of {clips.split_size} clips, {clips.seconds / 3600:.2f} hours, {clips.size / 1e6:.1f} MB, in {out}: "
        f"{clips.cut} cut now, {clips.kept} there before, {clips.split_size - done} left out"
    )


def print_needed(
    videos: "Sequence[Spans]", out: Path, frames: bool, sources: Sequence[str] = (EGO4D, EPIC_KITCHENS)
) -> None:
    """Write the lists of videos and print what they hold.

    Args:
        out: the list of Ego4D's videos; EPIC-KITCHENS' goes beside it, into ``*_epic_kitchens.txt``.
        frames: also list the frames that tasks may read, in ``*_frames.csv``.
        sources: those that questions can have.
    """
    from lmms_egoplan.benchmarks.egoplan import needed_videos

    places = {
        EGO4D: (out.name, "for --video_uid_file of its downloader"),
        EPIC_KITCHENS: (f"{out.stem}_epic_kitchens{out.suffix}", "for --specific-videos of its downloader"),
    }
    for source in sources:
        name, use = places[source]
        ids = needed_videos.ids_of(videos, source)
        if not ids:
            typer.echo(f"{source}: no video is needed, and no list is written")
            continue
        path = out.with_name(name)
        write_whole(path, "\n".join(ids) + "\n")
        of = ""
        if source == EPIC_KITCHENS:
            participants = needed_videos.participants(videos)
            of = f" of {len(participants)} participants ({', '.join(participants)})"
        typer.echo(
            f"{source}: {len(ids)} videos{of}, of which the questions show "
            f"{needed_videos.hours(videos, source):.2f} hours. Written to {path}, {use}"
        )
    if frames:
        path = out.with_name(f"{out.stem}_frames.csv")
        write_whole(path, needed_videos.frames_csv(videos))
        typer.echo(
            f"{sum(video.num_frames for video in videos)} frames, all that a task may read, in "
            f"{sum(len(video.runs) for video in videos)} runs. Written to {path}"
        )
