"""Write small narrated videos in both layouts."""

import csv
import re
from pathlib import Path

from construction.ego4d_files import narrated
from lmms_egoplan.construction.egoplan.narrations import timestamp

FPS = 60
UID = "001e3e4e-2743-47fc-8564-d5efd11f9e90"
TEA = ("fill kettle", "switch on kettle", "take cup", "open box", "put bag in cup", "pour water")


def epic_row(video_id="P01_01", number=0, narration="take cup", **changes):
    """Return a narration of two seconds that starts three seconds after the previous one."""
    start, stop = 100 + 300 * number, 300 + 300 * number
    return {
        "narration_id": f"{video_id}_{number}",
        "participant_id": video_id.split("_")[0],
        "video_id": video_id,
        "start_timestamp": timestamp(start),
        "stop_timestamp": timestamp(stop),
        "start_frame": start * FPS // 100,
        "stop_frame": stop * FPS // 100,
        "narration": narration,
    } | changes


def epic_rows(texts=TEA, video_id="P01_01"):
    return [epic_row(video_id, number, text) for number, text in enumerate(texts)]


def write_epic(path: Path, rows) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def some_videos(folder: Path, epic: Path, count: int) -> Path:
    """Write the narrations of the first videos of EPIC-KITCHENS."""
    header, *rows = epic.read_text(encoding="utf-8").splitlines(keepends=True)
    videos = list(dict.fromkeys(row.split(",")[2] for row in rows))[:count]
    path = folder / "narrations.csv"
    path.write_text(
        "".join([header, *(row for row in rows if row.split(",")[2] in videos)]), encoding="utf-8"
    )
    return path


def as_ego4d(videos):
    """Return EPIC-KITCHENS' narrations in Ego4D's layout, with invented uids:

    "take plate" as "#C C takes plate".
    """
    return {
        f"uid-{video.video_id}": {
            "narration_pass_1": narrated(
                *(
                    (action.start / 100, re.sub(r"^(\S+)", r"#C C \1s", action.text))
                    for action in video.actions
                )
            )
        }
        for video in videos
    }


def goals_of(texts=TEA, **changes):
    """Return goals in Figure 10's form for `epic_rows`: one clip, with one sub-clip of the first
    four rows.
    """
    first, last = timestamp(100), timestamp(300 + 300 * (len(texts) - 1))
    sub_clip = {
        "secondary_subgoal": "heat water",
        "start_timestamp": first,
        "stop_timestamp": timestamp(300 + 900),
    }
    clip = {
        "subgoal": "prepare a cup",
        "start_timestamp": first,
        "stop_timestamp": last,
        "sub_clips": [sub_clip],
    }
    return {"overall_goal": "Make tea.", "clips": [clip]} | changes
