"""Write small narrated videos in Ego4D's layout, with Goal-Step's steps, and EPIC-KITCHENS' rows in
that layout.
"""

import csv
import re
from uuid import NAMESPACE_URL, uuid5

from benchmarks.egointent.source import goalstep_video, segment, write_goalstep, write_videos
from construction.ego4d_files import narrated, write_narrations
from lmms_egoplan.construction.egoplan.narrations import hundredths

UID = "f20fb254-9648-40ea-a500-5493a1ad9eac"
TEA = (
    (0.5, "#C C picks a kettle"),
    (1.1, "#C C fills the kettle"),
    (1.9, "#C C opens a box"),
    (2.6, "#C C puts a bag in the cup"),
    (3.4, "#C C pours water"),
)


def write_small(folder, passes=None, uids=(UID,), segments=None, frames=120, **options):
    """Write narrations, Goal-Step's file and rendered videos of 4 seconds into a folder."""
    segments = segments or [segment(0, 4, "Make tea")]
    passes = passes or {"narration_pass_1": narrated(*TEA)}
    write_narrations(folder / "narration.json", dict.fromkeys(uids, passes), **options)
    videos = [goalstep_video(uid, *segments, goal="Making tea") for uid in uids]
    write_goalstep(folder / "goalstep.json", *videos)
    write_videos(folder / "videos", uids, frames=frames)
    return folder


def write_epic(folder, epic, seconds=20.0, videos=3):
    """Write the first seconds of some EPIC-KITCHENS videos in Ego4D's layout, "take plate" as "#C C
    takes plate".

    Returns:
        Time and text of each narration, by uid.
    """
    rows = {}
    with epic.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            time = hundredths(row["start_timestamp"]) / 100
            if time < seconds:
                rows.setdefault(row["video_id"], []).append(
                    (time, re.sub(r"^(\S+)", r"#C C \1s", row["narration"]))
                )
    chosen = {
        str(uuid5(NAMESPACE_URL, name)): video_rows
        for name, video_rows in list(rows.items())[:videos]
    }
    write_narrations(
        folder / "narration.json",
        {
            uid: {"narration_pass_1": narrated(*video_rows, summaries=("C cooks",))}
            for uid, video_rows in chosen.items()
        },
    )
    parts = (segment(0, seconds / 2, "Prepare"), segment(seconds / 2, seconds, "Cook"))
    write_goalstep(
        folder / "goalstep.json", *(goalstep_video(uid, *parts, goal="Cooking") for uid in chosen)
    )
    write_videos(folder / "videos", chosen, frames=round(30 * seconds) + 30)
    return chosen
