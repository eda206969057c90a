"""The authors' pipelines of EgoPlan-Bench and EgoPlan-Bench2, slow and obvious, written from a description.

Nothing here uses the package: frames are those of the records, letters and prompts are written out.
"""

import re
from typing import Any

import numpy as np

Record = dict[str, Any]

LETTERS = "ABCD"
# The openings that are known to be removed, and two pairs that a missing comma joins.
OPENINGS = [
    *("The best answer is", "The correct answer is", "The answer is", "The answer"),
    *("The best option isThe correct option is", "Best answer:Best option:", "Answer:", "Option:"),
    *("The correct answer", "The correct option"),
]


def single_video(record: Record) -> list[int]:
    """Return 8 frames: seven steps from the first action's start, rounded down, and the observation."""
    observation = record["current_observation_frame"]
    actions = record["task_progress_metadata"]
    if not actions or actions[0]["start_frame"] == observation:
        return [observation] * 8
    first = actions[0]["start_frame"]
    numbers = np.arange(first, observation, (observation - first) / 7).astype(int).tolist()
    return [*numbers[:7], observation]


def clips(record: Record) -> list[list[int]]:
    """Return 8 frames of each of the last 4 actions; the observation follows as an image."""
    numbers = []
    for action in record["task_progress_metadata"][-4:]:
        start, stop = action["start_frame"], action["stop_frame"]
        if record["video_source"] == "Ego4D":
            step = (stop - start) // 8
            numbers.append([start + i * step for i in range(8)])
        else:
            length = stop - start + 1
            offsets = np.arange(0, length, length / 8).astype(int).tolist()
            numbers.append([start + offset for offset in offsets[:8]])
    return numbers


def runs_past(record: Record) -> bool:
    """Return whether one of the last 4 actions ends after the observation."""
    last = record["current_observation_frame"]
    return any(action["stop_frame"] > last for action in record["task_progress_metadata"][-4:])


def tuned_question(record: Record) -> str:
    """Return the question to the tuned model."""
    goal = record["task_goal"].strip("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ").lower()
    if "goal" in goal:
        goal = goal.split("to", 1)[1].strip()
    begin = "I am tasked with" if goal.split()[0].endswith("ing") else "My current task is to"
    return (
        f"{begin} {goal}. The task's progress is demonstrated in the provided video. My current field of view is shown "
        "in the provided image. What should be my next action? Please output the most reasonable action you think, "
        "expressed in a short phrase."
    )


def bench2_frames(record: Record) -> list[int]:
    """Return 8 frames at even steps, rounded down, from the task's start to the observation, both included."""
    first, last = record["task_start_frame"], record["current_observation_frame"]
    return np.linspace(first, last, 8, dtype=int).tolist()


def bench2_prompt(record: Record) -> str:
    """Return the prompt, with an empty line at either end."""
    return """
Select the best answer to the following multiple-choice question based on the video. \
Respond with only the letter (A, B, C, or D) of the correct option.

Considering the progress shown in the video and my current observation in the last frame, \
what action should I take next in order to {task_goal}?

A. {choice_a}
B. {choice_b}
C. {choice_c}
D. {choice_d}
""".format(**record)


def bench2_letter(reply: str) -> str:
    """Return the first A to D anywhere in a reply without the known openings; an empty text counts as wrong."""
    for opening in OPENINGS:
        reply = reply.replace(opening, "")
    return (re.findall("[ABCD]", reply) or [""])[0]
