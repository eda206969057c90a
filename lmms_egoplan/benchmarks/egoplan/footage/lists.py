"""Write lists of the videos and frames that questions need, for the publishers' downloaders."""

from collections.abc import Sequence
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.footage.sources import NeededFrames
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.files import write_whole


def further_lists(out: Path) -> tuple[Path, Path]:
    """Return the paths of the lists of EPIC-KITCHENS' videos and of frames.

    Args:
        out: File for the list of Ego4D's videos.
    """
    kitchens = out.with_name(f"{out.stem}_epic_kitchens{out.suffix}")
    return kitchens, out.with_name(f"{out.stem}_frames.csv")


def write_videos(videos: Sequence[NeededFrames], source: str, out: Path) -> str:
    """Write the list of a source's videos, if any are needed, and describe it in a line.

    Args:
        videos: Needed videos of all sources.
        source: Source of the listed videos.
        out: File for the list of Ego4D's videos; EPIC-KITCHENS' list is ``*_epic_kitchens.txt``
            next to it.
    """
    source_videos = [video for video in videos if video.source == source]
    if not source_videos:
        return f"{source}: no videos needed, no list written"
    if source == EPIC_KITCHENS:
        path = further_lists(out)[0]
        option = "--specific-videos"
        participants = sorted({video.video_id.split("_")[0] for video in source_videos})
        kitchens = f" of {len(participants)} participants ({', '.join(participants)})"
    else:
        path = out
        option = "--video_uid_file"
        kitchens = ""
    write_whole(path, "".join(f"{video.video_id}\n" for video in source_videos))
    hours = sum(video.seconds for video in source_videos) / 3600
    return (
        f"{source}: {len(source_videos)} videos{kitchens}; the questions show {hours:.2f} "
        f"hours. Written to {path}, for {option} of the downloader"
    )


def write_frames(videos: Sequence[NeededFrames], out: Path) -> str:
    """Write the list of the frames that tasks may read, and describe it in a line.

    The frames are numbered as in the annotations.

    Args:
        videos: Needed videos of all sources.
        out: File for the list of Ego4D's videos; the frames are in ``*_frames.csv`` next to it.
    """
    path = further_lists(out)[1]
    lines = []
    for video in videos:
        for first, last in video.runs:
            lines.append(f"{video.source},{video.video_id},{first},{last}\n")
    write_whole(path, "".join(["video_source,video_id,first_frame,last_frame\n", *lines]))
    num_frames = sum(video.num_frames for video in videos)
    return f"{num_frames} frames that tasks may read, in {len(lines)} runs. Written to {path}"
