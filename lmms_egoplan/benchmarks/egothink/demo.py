"""The demo's EgoThink: views of the rendered scenes, with questions about them in the official layout."""

import json
from pathlib import Path
from typing import NamedTuple

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.demo.scenes import SCENES

TASKS = ("egothink_bench",)

FOLDER = "egothink"

_TASK_OF = {dimension.name: f"egothink_{dimension.capability}_{dimension.name}" for dimension in DIMENSIONS}

SCORES = dict.fromkeys((*TASKS, *_TASK_OF.values()), "score")

# Frames from a step's first one: nothing happens; a hand acts.
_BEFORE, _DURING = -4, 7


class _Question(NamedTuple):
    """goal, step, moment: what is seen, the scene with this goal so many frames from the start of this step."""

    goal: str
    step: int
    moment: int
    question: str
    answer: str


_RICE, _JUICE, _SALAD = "put away the rice", "drink a glass of juice", "make a tomato salad"
_EGG, _PAINT, _PLANT = "fry an egg", "paint a board", "plant a seedling"

_QUESTIONS = {
    "existence": (
        _Question(_JUICE, 3, _DURING, "What am I holding in my right hand?", "a carton of juice"),
        _Question(_SALAD, 2, _BEFORE, "Is there a tomato on the board in front of me?", "yes"),
    ),
    "attribute": (
        _Question(_RICE, 3, _BEFORE, "What color is the box that I have put into the cupboard?", "red"),
        _Question(_PLANT, 2, _DURING, "What color is the sleeve that I am wearing?", "yellow"),
    ),
    "affordance": (
        _Question(_PAINT, 2, _DURING, "Can I use the thing in my right hand to spread paint?", "yes"),
        _Question(_SALAD, 3, _DURING, "What is the tool in my right hand used for?", "cutting"),
    ),
    "activity": (
        _Question(_PAINT, 2, _DURING, "What am I doing?", "painting a board"),
        _Question(_EGG, 2, _DURING, "What am I doing now?", "pouring oil into the pan"),
    ),
    "location": (
        _Question(_SALAD, 0, _BEFORE, "Where am I?", "In the kitchen."),
        _Question(_EGG, 2, _BEFORE, "Am I standing at a stove or at a desk?", "At a stove."),
    ),
    "spatial": (
        _Question(_JUICE, 0, _BEFORE, "Where is the fridge, on my left or on my right?", "On my right."),
        _Question(_EGG, 0, _BEFORE, "Is there an egg on my left?", "Yes."),
    ),
    "counting": (
        _Question(_RICE, 1, _BEFORE, "How many of my hands can I see?", "Two."),
        _Question(_JUICE, 3, _BEFORE, "How many glasses are there in front of me?", "One."),
    ),
    "comparison": (
        _Question(_SALAD, 0, _BEFORE, "Which one is closer to me, the knife or the tap?", "The knife."),
        _Question(_JUICE, 3, _BEFORE, "Which one in front of me is taller, the fridge or the glass?", "The fridge."),
    ),
    "situated": (
        _Question(_SALAD, 0, _DURING, "Why have I turned on the tap?", "To wash the tomato."),
        _Question(_EGG, 4, _BEFORE, "Am I frying an egg or baking a cake?", "Frying an egg."),
    ),
    "forecasting": (
        _Question(_EGG, 3, _BEFORE, "What will I do next?", "Crack the egg into the pan."),
        _Question(_JUICE, 4, _BEFORE, "What will I do with the glass in front of me?", "Drink the juice."),
    ),
    "navigation": (
        _Question(
            *(_SALAD, 2, _BEFORE, "How do I get to the sink?"),
            "Take a step to the left along the worktop until the sink is in front of you.",
        ),
        _Question(
            *(_JUICE, 3, _BEFORE, "How can I get to the fridge?"),
            "Turn a little to the right and walk forward until you can reach the fridge's door.",
        ),
    ),
    "assistance": (
        _Question(
            *(_PLANT, 3, _BEFORE, "How do I water the seedling in the pot in front of me?"),
            "Take the green watering can on the left, hold it over the pot and tilt it until water runs onto the soil.",
        ),
        _Question(
            *(_PAINT, 4, _BEFORE, "How do I keep the paint in the can from drying?"),
            "Take the lid that lies on the left of the can, lay it on the can and press it down all around.",
        ),
    ),
}


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/egothink``: for each of the twelve dimensions two questions and their images.

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    views = {scene.goal: (scene, list(scene.frames())) for scene in SCENES}
    for dimension in DIMENSIONS:
        root = folder / FOLDER / dimension.folder
        (root / "images").mkdir(parents=True)
        records = []
        for number, (goal, step, moment, question, answer) in enumerate(_QUESTIONS[dimension.name], 1):
            scene, frames = views[goal]
            frames[scene.span(step)[0] + moment].save(root / "images" / f"{number}.jpg", quality=90)
            records.append(
                {
                    "source_dataset": "rendered",
                    "image_path": [f"{number}.jpg"],
                    "question": question,
                    "answer": answer,
                }
            )
        (root / "annotations.json").write_text(json.dumps(records, indent=4) + "\n", encoding="utf-8")
    return ["egothink", FOLDER]
