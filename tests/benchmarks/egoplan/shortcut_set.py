"""A few questions of both benchmarks for the shortcut tasks, and a slow, obvious version of what
each task shows.
"""

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan, prepare_egoplan_bench2
from media.files import write_epic_folder, write_numbered_video

Record = dict[str, Any]
CONDITIONS = [
    *(
        "blind",
        "candidates_only",
        "without_goal",
        "last_frame",
        "first_frame",
        "frozen",
        "shuffled",
        "reversed",
    ),
    *("same_goal_video", "other_goal_video", "last_1_action", "last_2_actions", "last_4_actions"),
]
TASKS = {
    "egoplan": ["egoplan_val", *(f"egoplan_val_{name}" for name in CONDITIONS)],
    "egoplan_bench2": ["egoplan_bench2", *(f"egoplan_bench2_{name}" for name in CONDITIONS)],
}
# Frame i of a video shows this number plus i.
BASES = {"P01_01": 1000, "P02_02": 2000, "aa-1": 3000, "bb-2": 4000, "cc-3": 5000}
LENGTH = 80
CHOICES = ["pour water", "wash the cup", "open the drawer", "take a spoon"]
_QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action should I take next in order to {}?"
)
# Goal, video, observation, and starts of the past actions. The goal "sweep the floor" has a single
# video.
_DRAWN = [
    ("make tea", "P01_01", 70, [3, 14, 22, 41, 55, 60]),
    ("Make tea", "P02_02", 41, [7, 30]),
    ("make tea", "aa-1", 60, [0, 20, 33, 47]),
    ("Fry an egg.", "aa-1", 79, [50]),
    ("fry an egg", "bb-2", 33, [8, 9, 11]),
    ("fry an egg", "bb-2", 44, []),
    ("sweep the floor", "cc-3", 64, [1, 10, 20, 30, 40]),
    ("sweep the floor", "cc-3", 12, [10]),
]
# Number of questions of EgoPlan-Bench without another video of the same goal.
WITHOUT_SAME_GOAL = 2


def records() -> list[Record]:
    """Return the questions of EgoPlan-Bench."""
    return [
        {
            "sample_id": 100 + number,
            "video_source": "EpicKitchens" if video.startswith("P") else "Ego4D",
            "video_id": video,
            "task_goal": goal,
            "question": _QUESTION.format(goal.lower().strip(".")),
            **{f"choice_{letter}": choice for letter, choice in zip("abcd", CHOICES, strict=True)},
            "golden_choice_idx": "ABCD"[number % 4],
            "answer": CHOICES[number % 4],
            "current_observation_frame": observation,
            "task_progress_metadata": [
                {"narration_text": "step", "start_frame": start, "stop_frame": start + 5}
                for start in starts
            ],
        }
        for number, (goal, video, observation, starts) in enumerate(_DRAWN)
    ]


def bench2_records() -> list[Record]:
    """Return the questions of EgoPlan-Bench2, which start up to three frames before the first
    action.
    """
    domains = ("Daily life", "Work", "Hobbies", "Recreation")
    return [
        {
            **{
                name: value
                for name, value in record.items()
                if name not in ("video_source", "video_id", "question")
            },
            "sample_id": f"{record['video_id']}_{record['sample_id']}",
            "domain": domains[number % 2],
            "scenario": "kitchen",
            "task_start_frame": max(0, first_of(record) - 3),
        }
        for number, record in enumerate(records())
        if record["video_source"] == "Ego4D"
    ]


def prepare(folder: Path) -> dict[str, list[Record]]:
    """Prepare both benchmarks in `folder`, which ``LMMS_EGOPLAN_DATA`` must name; return their
    records by benchmark.
    """
    for video in ("P01_01", "P02_02"):
        write_epic_folder(
            folder / "epic" / video[:3] / "rgb_frames" / video, 1, LENGTH, BASES[video]
        )
    bench2 = prepare_bench2(folder)
    path = folder / "egoplan.json"
    path.write_text(json.dumps(records()), encoding="utf-8")
    prepare_egoplan(
        path, "val", Media({"EpicKitchens": folder / "epic", "Ego4D": folder / "ego4d"})
    )
    return {"egoplan": records(), "egoplan_bench2": bench2}


def prepare_bench2(folder: Path) -> list[Record]:
    """Prepare EgoPlan-Bench2, and return its records."""
    for video in ("aa-1", "bb-2", "cc-3"):
        write_numbered_video(folder / "ego4d" / f"{video}.mp4", LENGTH, base=BASES[video])
    path = folder / "egoplan_bench2.json"
    path.write_text(json.dumps(bench2_records()), encoding="utf-8")
    prepare_egoplan_bench2(path, Media({"Ego4D": folder / "ego4d"}))
    return bench2_records()


def video_of(record: Record) -> str:
    return record.get("video_id") or record["sample_id"].split("_")[0]


def goal_of(record: Record) -> str:
    return record["task_goal"].lower().strip(". ")


def first_of(record: Record) -> int:
    """The first frame of the task's own input."""
    if "task_start_frame" in record:
        return record["task_start_frame"]
    starts = [action["start_frame"] for action in record["task_progress_metadata"]]
    return min(starts, default=record["current_observation_frame"])


def shown_by_the_task(record: Record, count: int = 8, first: int | None = None) -> list[int]:
    """The numbers in the frames of the benchmark's own task, or of its end from frame `first`."""
    first, last = first_of(record) if first is None else first, record["current_observation_frame"]
    base, count = BASES[video_of(record)], min(count, last - first + 1)
    if count == 1:
        return [base + last]
    step = Fraction(last - first, count - 1)
    return [base + first + math.floor(step * i + Fraction(1, 2)) for i in range(count)]


def shown_under(
    condition: str | None, record: Record, partner: Record | None = None, count: int = 8
) -> list[int]:
    """The numbers in the frames that a condition shows. For ``shuffled``, one possible order."""
    if condition in ("blind", "candidates_only"):
        return []
    if condition == "first_frame":
        return [shown_by_the_task(record, 2)[0]]  # a single frame would be the last one
    if condition and condition.endswith("_goal_video"):
        return shown_by_the_task(partner, count)
    if condition and condition.endswith(("_action", "_actions")):
        number = int(condition.split("_")[1])
        return shown_of_last_actions(record, count, number)
    return rearranged(condition, shown_by_the_task(record, count))


def shown_of_last_actions(record: Record, count: int, number: int) -> list[int]:
    """The numbers in frames of the last `number` actions, or of all if there are fewer."""
    starts = [action["start_frame"] for action in record["task_progress_metadata"]]
    if len(starts) < number:
        return shown_by_the_task(record, count)
    return shown_by_the_task(record, count, sorted(starts)[-number])


def rearranged(condition: str | None, whole: list[int]) -> list[int]:
    """The numbers in the frames of the task, as a condition arranges or repeats them."""
    if condition == "last_frame":
        return [whole[-1]]
    if condition == "frozen":
        return [whole[-1] for _ in whole]
    if condition == "reversed":
        return [*reversed(whole)]
    if condition == "shuffled":
        return random.sample(whole, len(whole))
    return whole


def text_under(condition: str | None, record: Record) -> str:
    """The question that a condition asks."""
    question = _QUESTION.format(
        record["task_goal"] if "question" not in record else goal_of(record)
    )
    if condition == "candidates_only":
        return ""
    return question.split(" in order to ")[0] + "?" if condition == "without_goal" else question
