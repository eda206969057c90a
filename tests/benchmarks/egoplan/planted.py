"""Runs of planted models under every condition: their answers depend on what a condition shows, by
a known rule.

Frames are numbers. A model sees the altered frames of a question, and prefers a choice by its rule.
"""

import json
import random
from pathlib import Path

from benchmarks.egoplan.synthetic import egoplan_docs
from lmms_egoplan.benchmarks.conditions import SHORTCUTS, apply_condition
from report.answers import Answers
from report.synthetic import write_run

COUNT = 84
FRAMES = tuple(range(8))
CONDITIONS = (
    None,
    "blind",
    "last_frame",
    "first_frame",
    "frozen",
    "shuffled",
    "reversed",
    "same_goal_video",
)
MODELS = ("Watches", "LastFrame", "Ignores", "PrefersUndone")


def docs():
    """Return questions in which two wrong choices have been done, and the right one is never among
    the past actions.
    """
    rows = []
    for doc in egoplan_docs(COUNT):
        wrong = [choice for choice in doc["choices"] if choice != doc["answer"]]
        past = [
            {"narration_text": text, "start_frame": 1 + n, "stop_frame": 2 + n}
            for n, text in enumerate(wrong[:2])
        ]
        rows.append(doc | {"past_actions": past})
    return rows


DOCS = docs()


def visible_frames(doc, condition):
    """Return the frames that a model sees; frames of another video are negative."""
    if condition == "blind":
        return []
    frames = apply_condition(FRAMES, condition, str(doc["sample_id"]))
    return [-1 - frame for frame in frames] if condition == "same_goal_video" else frames


def knows(model, doc, frames):
    """Return true if the rule of a model finds the right choice, before its noise."""
    if model == "LastFrame":  # It needs the question's true last frame, at the end.
        return frames[-1:] == [FRAMES[-1]]
    return model == "Watches" and frames == list(FRAMES)


def losses(model, doc, condition):
    """Return the mean loss and the number of tokens of each choice."""
    chance, frames = random.Random(f"{model} {doc['sample_id']}"), visible_frames(doc, condition)
    base = [chance.uniform(1, 3) for _ in range(4)]
    tokens = [chance.randint(2, 5) for _ in range(4)]
    gold = doc["choices"].index(doc["answer"])
    has_noise = chance.random() < 0.2
    if knows(model, doc, frames) and not has_noise:
        base[gold] = 0.5
    if model == "PrefersUndone":
        done = {past["narration_text"] for past in doc["past_actions"]}
        base = [
            loss + 4 * (choice in done) for loss, choice in zip(base, doc["choices"], strict=True)
        ]
    return list(zip(base, tokens, strict=True))


def answers(model, condition, rows=DOCS):
    responses = [
        [
            json.dumps({"loss": loss, "num_tokens": n, "is_greedy": False})
            for loss, n in losses(model, doc, condition)
        ]
        for doc in rows
    ]
    return Answers(rows, responses)


def tasks(model):
    """Return the answers of a model by task. One fifth of the questions has no partner."""
    by_task = {}
    for condition in CONDITIONS:
        rows = (
            [doc for doc in DOCS if doc["sample_id"] % 5]
            if condition == "same_goal_video"
            else DOCS
        )
        by_task["_".join(filter(None, ["egoplan_val", condition]))] = answers(
            model, condition, rows
        )
    return by_task


def write(folder: Path) -> None:
    """Write a run of each model with lmms-eval.

    The last one is lm-eval's, which logs the questions.
    """
    assert {*CONDITIONS} <= {None, *SHORTCUTS}
    for model in MODELS:
        write_run(
            folder, "lm-eval" if model == MODELS[-1] else "lmms-eval", f"org/{model}", tasks(model)
        )
