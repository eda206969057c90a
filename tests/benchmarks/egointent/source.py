"""Create small data for EgoIntent: annotated steps, numbered videos of them, and Goal-Step
annotations.
"""

import json
from pathlib import Path

from media.files import write_numbered_video

FPS = 30
FRAMES = 120
VIDEO_IDS = ("0a1b-2c", "kitchen.3")


def raw_record(number=1, **changes):
    """Return an annotation record: step `number` of a video, from 1, half a second each."""
    return {
        "step_id": f"s{number}",
        "video_id": VIDEO_IDS[0],
        "start_sec": 0.5 * number,
        "end_sec": 0.5 * number + 0.4,
        "local_intent": f"hold board {number} steady",
        "global_intent": f"assemble frame {number}",
        "next_step_plan": f"drive screw {number} in",
        "scenario": "Assemble Furniture",
        "environment": "indoor",
        "event": "Build Shelf",
        "goal": "put up a shelf",
    } | changes


def raw_records():
    """Return six steps of two videos, in three scenarios, four of them indoors."""
    return [
        raw_record(1),
        raw_record(2, end_sec=2.5),
        raw_record(3, scenario="Make Tea", event=None, goal=None),
        raw_record(4, scenario="Make Tea", video_id=VIDEO_IDS[1]),
        raw_record(5, scenario="Cut Trees", video_id=VIDEO_IDS[1], environment="outdoor"),
        raw_record(
            6, scenario="Cut Trees", video_id=VIDEO_IDS[1], environment="Outdoor", unverified=True
        ),
    ]


def write_annotations(path: Path, records):
    """Write JSON Lines; return `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def write_videos(folder: Path, video_ids=VIDEO_IDS, frames=FRAMES, gaps=(1,)):
    """Write videos of numbered frames, 4 seconds at a constant 30 frames per second; return
    `folder`.
    """
    for video_id in video_ids:
        write_numbered_video(folder / f"{video_id}.mp4", frames, fps=FPS, gaps=gaps)
    return folder


def segment(start, end, text, *below, **changes):
    """Return a step or a substep of Goal-Step."""
    return {
        "start_time": start,
        "end_time": end,
        "step_category": "General activity: Do things",
        "step_description": text,
        "is_continued": False,
        "is_procedural": True,
        "is_relevant": "essential",
        "summary": [],
        "segments": list(below),
    } | changes


def goalstep_video(uid, *segments, category="COOKING:MAKE_FLATBREAD", goal="Making papadums"):
    """Return a video of Goal-Step."""
    return {
        "video_uid": uid,
        "start_time": 0.02,
        "end_time": 100.0,
        "goal_category": category,
        "goal_description": goal,
        "is_procedural": True,
        "summary": [],
        "segments": list(segments),
    }


def write_goalstep(path: Path, *videos):
    """Write an annotation file of Goal-Step; return `path`."""
    content = {
        "version": "1.0",
        "description": "Ego4D Goal-Step (val)",
        "split": "val",
        "videos": list(videos),
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
