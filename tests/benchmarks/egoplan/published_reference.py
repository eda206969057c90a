"""The authors' pipelines of EgoPlan-Bench and EgoPlan-Bench2, slow and obvious, written from a
description.

Nothing here uses the package: frames are those of the records, letters and prompts are written out.
Where the pipelines' code is public, test_pipelines.py compares these functions with its golden
answers.
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
    """Return 8 frames: seven steps from the first action's start, rounded down, and the
    observation.
    """
    observation = record["current_observation_frame"]
    actions = record["task_progress_metadata"]
    if not actions or actions[0]["start_frame"] == observation:
        return [observation] * 8
    first = actions[0]["start_frame"]
    numbers = np.arange(first, observation, (observation - first) / 7).astype(int).tolist()
    return [*numbers[:7], observation]


def video_fails(record: Record) -> bool:
    """Return whether the authors' code fails on the single video: its progress has one frame."""
    actions = record["task_progress_metadata"]
    return bool(actions) and actions[0]["start_frame"] == record["current_observation_frame"]


def last_actions(record: Record) -> list[tuple[int, int]]:
    """Return start and stop of the actions of which clips are shown.

    EPIC-KITCHENS: the last 4 that stop by the observation; each ends where the next one starts, at
    the latest.
    """
    actions = [
        (action["start_frame"], action["stop_frame"]) for action in record["task_progress_metadata"]
    ]
    if record["video_source"] == "Ego4D":
        return actions[-4:]
    actions = [action for action in actions if action[1] <= record["current_observation_frame"]][
        -4:
    ]
    for index in range(len(actions) - 1):
        start, stop = actions[index]
        actions[index] = start, min(stop, actions[index + 1][0])
    return actions


def is_short(record: Record, start: int, stop: int) -> bool:
    """Return whether the authors' code fails at an action: it needs 8 frames, of Ego4D 9."""
    return stop - start + 1 < (9 if record["video_source"] == "Ego4D" else 8)


def authors_fail(record: Record) -> bool:
    """Return whether the authors' code fails at one of the actions."""
    return any(is_short(record, *action) for action in last_actions(record))


def clips(record: Record) -> list[list[int]]:
    """Return 8 frames of each of the last actions; the observation follows as an image.

    A short action is divided into 8 parts in both sources. This is this project's rule.
    """
    numbers = []
    for start, stop in last_actions(record):
        if record["video_source"] == "Ego4D" and not is_short(record, start, stop):
            step = (stop - start) // 8
            numbers.append([start + i * step for i in range(8)])
        else:
            length = stop - start + 1
            offsets = np.arange(0, length, length / 8).astype(int).tolist()
            numbers.append([start + offset for offset in offsets[:8]])
    return numbers


def runs_past(record: Record) -> bool:
    """Return whether a frame of the clips is after the observation."""
    return any(
        number > record["current_observation_frame"] for clip in clips(record) for number in clip
    )


def tuned_question(record: Record) -> str:
    """Return the question to the tuned model."""
    goal = record["task_goal"].strip("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ").lower()
    if "goal" in goal:
        goal = goal.split("to", 1)[1].strip()
    begin = "I am tasked with" if goal.split()[0].endswith("ing") else "My current task is to"
    return (
        f"{begin} {goal}. The task's progress is demonstrated in the provided video. My current "
        "field of view is shown in the provided image. What should be my next action? Please "
        "output the most reasonable action you think, expressed in a short phrase."
    )


def bench2_frames(record: Record) -> list[int]:
    """Return 8 frames at even steps, rounded down, from the task's start to the observation, both
    included.
    """
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
    """Return the first A to D anywhere in a reply without the known openings; an empty text counts
    as wrong.
    """
    for opening in OPENINGS:
        reply = reply.replace(opening, "")
    return (re.findall("[ABCD]", reply) or [""])[0]


# Other pipelines. Frames are numbered in the source. `fps` is the source's rate, in frames per
# second.

OPTIONS = "A. {choice_a}\nB. {choice_b}\nC. {choice_c}\nD. {choice_d}"
QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action should I take next in order to {task_goal}?"
)


def first_frame(record: Record) -> int:
    """Return where the progress starts."""
    actions = record["task_progress_metadata"]
    start = actions[0]["start_frame"] if actions else record["current_observation_frame"]
    return record.get("task_start_frame", start)


def fallback_prompt(record: Record) -> str:
    """Return this project's question, for pipelines whose prompt is unknown."""
    return bench2_prompt(record)


def lmms_eval_prompt(record: Record) -> str:
    """Return the prompt of lmms-eval's task, which keeps the goal's capitals and punctuation."""
    goal = record["task_goal"]
    if "goal" in goal:
        goal = goal[goal.index("to") + 2 :].strip()
    opening = "I am tasked with" if goal.split()[0][-3:] == "ing" else "My current task is to"
    return (
        f"{opening} {goal}. The task's progress is demonstrated in the provided video. My current "
        "field of view is shown in the provided image. What should be my next action? Please "
        "output the most reasonable action you think, expressed in a short phrase.\n"
        + OPTIONS.format(**record)
        + "\nAnswer with the option's letter from the given choices"
    )


def flageval_prompt(record: Record) -> str:
    question = record.get("question") or QUESTION.format(**record)
    return (
        f"{question}\n{OPTIONS.format(**record)}\nAnswer with the option's letter from the "
        "given choices directly."
    )


def mimo_prompt(record: Record) -> str:
    return bench2_prompt(record) + "\nPut your final answer in \\boxed{}."


def physbrain_evalkit_prompt(record: Record) -> str:
    question = record.get("question") or QUESTION.format(**record)
    return (
        f"{question}\n{OPTIONS.format(**record)}\nPlease answer with only the letter of your "
        "choice (A, B, C, or D)."
    )


def seed_prompt(record: Record) -> str:
    progress = "the progress shown in the video and " if record["task_progress_metadata"] else ""
    question = (
        f"Considering {progress}my current observation shown in the image, what action should I "
        f"take next in order to {record['task_goal']}?\n"
    )
    return (
        f"{question}{OPTIONS.format(**record)}\n Output the thinking process in <think> </think> "
        "and final answer in <answer> </answer> tags, i.e., <think> reasoning process here "
        "</think><answer> answer here </answer>. "
    )


def physbrain_prompt(record: Record) -> str:
    question = record.get("question") or QUESTION.format(**record)
    return (
        f"{question}\n{OPTIONS.format(**record)}\nSelect the correct option. Output ONLY the "
        "single uppercase letter (A, B, C, or D). Do not provide any explanation or option "
        "text.\nBest Option:"
    )


def eight_frames(record: Record) -> list[int]:
    """Return 8 frames, rounded down, for pipelines whose frames are unknown."""
    return np.linspace(
        first_frame(record), record["current_observation_frame"], 8, dtype=int
    ).tolist()


def flageval_frames(record: Record) -> list[int]:
    """Return at most 16 frames from the first one; a longer clip's last frame is not shown."""
    first, length = (
        first_frame(record),
        record["current_observation_frame"] - first_frame(record) + 1,
    )
    indices = np.arange(0, length, length / 16).astype(int) if length > 16 else np.arange(length)
    return (first + indices).tolist()


def seed_frames(record: Record, fps: float) -> list[int]:
    """Return 4 to 16 frames at 2 per second, an even number; none without past actions."""
    if not record["task_progress_metadata"]:
        return []
    first, length = (
        first_frame(record),
        record["current_observation_frame"] - first_frame(record) + 1,
    )
    if length < 2:
        return [first, first]
    count = length / fps * 2
    count = min(max(count, 4), 16, length)
    count = int(count // 2) * 2
    return [first + round(number) for number in np.linspace(0, length - 1, count).tolist()]


def lmms_eval_letter(reply: str) -> str:
    for opening in OPENINGS[:6]:
        reply = reply.replace(opening, "")
    return (re.findall("[ABCD]", reply) or [""])[0]


def flageval_letter(reply: str) -> str:
    """Return the first capital of what is left of a reply."""
    if "</think>" in reply:
        reply = reply[reply.index("</think>") + len("</think>") :]
    if len(reply) != 1:
        reply = reply.replace("The", "").replace("If", "")
        reply = "".join(character for character in reply if character not in "INST/").strip()
        if len(reply) > 1 and reply[1] == "." and "A" <= reply[0] <= "Z":
            return reply[0]
        words = (
            "boxed,Answer:,Answer is,answer is,option is,Correct option,correct "
            "option,Answer,answer,故选,选择"
        )
        for word in [*words.split(","), "正确选项为", "答案选", "答案为", "答案是", "因此", "答案"]:
            if word in reply:
                reply = reply[reply.rindex(word) + len(word) :]
                break
    else:
        reply = reply.upper()
    return next((character for character in reply if "A" <= character <= "Z"), "")


def mimo_letter(reply: str) -> str:
    """Return the letter if it is the whole content of the last box, or all text after a thought."""
    boxes = re.findall(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", reply)
    text = boxes[-1] if boxes else reply
    if "</think>" in text:
        text = text[text.index("</think>") + len("</think>") :]
    return next((letter for letter in LETTERS if text.strip().lower() == letter.lower()), "")


def physbrain_thinking_letter(reply: str) -> str:
    """Return the letter in the first answer tag after the first thought."""
    lower = reply.lower()
    if "</think>" in lower:
        reply = reply[lower.index("</think>") + len("</think>") :]
        lower = reply.lower()
    begin = lower.find("<answer>")
    end = lower.find("</answer>", begin)
    return physbrain_letter(reply[begin + len("<answer>") : end] if -1 < begin < end else reply)


def physbrain_letter(reply: str) -> str:
    """Return the last letter in brackets, or the first word that is a letter."""
    reply = reply.upper()
    for letters in (
        re.findall(r"ANSWER[:\s]*\(([A-D])\)", reply),
        re.findall(r"\(([A-D])\)", reply),
    ):
        if letters:
            return letters[-1]
    return next((word for word in re.findall(r"\w+", reply) if word in ("A", "B", "C", "D")), "")


def seed_letter(reply: str) -> str:
    """Return the first character between the answer tags."""
    if "<answer>" not in reply or "</answer>" not in reply.partition("<answer>")[2]:
        return ""
    text = reply.partition("<answer>")[2].partition("</answer>")[0].strip()
    return text[0] if text and "A" <= text[0] <= "Z" else ""


PROMPTS = {
    ("egoplan", "lmms-eval-0.7.3"): lmms_eval_prompt,
    ("egoplan", "seed-bench-r1"): seed_prompt,
    ("egoplan_bench2", "official"): bench2_prompt,
    ("egoplan_bench2", "lmms-eval-0.7.3"): fallback_prompt,
    ("egoplan_bench2", "flageval"): flageval_prompt,
    ("egoplan_bench2", "mimo"): mimo_prompt,
    ("egoplan_bench2", "physbrain-evalkit"): physbrain_evalkit_prompt,
    ("egoplan_bench2", "physbrain-evalkit-thinking"): physbrain_evalkit_prompt,
    ("egoplan_bench2", "seed-bench-r1"): seed_prompt,
}
PIPELINES = [*PROMPTS]
# A prompt of `sensitivity` without a preset.
PROMPTS["egoplan", "physbrain"] = physbrain_prompt
PIPELINE_LETTERS = {
    "official": bench2_letter,
    "lmms-eval-0.7.3": lmms_eval_letter,
    "flageval": flageval_letter,
    "mimo": mimo_letter,
    "physbrain-evalkit": physbrain_letter,
    "physbrain-evalkit-thinking": physbrain_thinking_letter,
    "seed-bench-r1": seed_letter,
}
# Sampling of each pipeline: limit on new tokens, whether it samples (None: the server decides), and
# other arguments.
SAMPLING = {
    "official": (1024, False, {}),  # LongVA's; the other model's code has no limit of its own
    "lmms-eval-0.7.3": (4096, False, {}),
    "flageval": (32768, None, {}),
    "mimo": (16384, False, {}),  # the adapter's limit, below the task's 32,768
    "physbrain-evalkit": (1024, False, {"repetition_penalty": 1.05}),
    "physbrain-evalkit-thinking": (1024, False, {"repetition_penalty": 1.05}),
    "seed-bench-r1": (256, True, {"temperature": 1.0}),
}


def media_of(name: str, record: Record, fps: float) -> tuple[str, list[int], list[int]]:
    """Return a pipeline's kind of media (images, video or file), its frames, and the separate
    image's frame.
    """
    last = record["current_observation_frame"]
    if name == "seed-bench-r1":
        return "video", seed_frames(record, fps), [last]
    if name == "flageval":
        return "images", flageval_frames(record), []
    if name == "mimo" or (name == "lmms-eval-0.7.3" and "task_start_frame" not in record):
        return "file", [], []
    return "images", eight_frames(record), [last] if name.startswith("physbrain-evalkit") else []
