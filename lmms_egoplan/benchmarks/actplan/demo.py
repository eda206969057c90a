"""The demo's ActPlan-1K: the rendered scenes as household activities, in the full release's layout."""

from pathlib import Path
from typing import NamedTuple

from PIL import Image

from lmms_egoplan.demo.scenes import SCENES

TASKS = ("actplan_bench",)
SCORES = dict.fromkeys(("actplan", "actplan_text_only"), "lcs_norm")

# Not the tasks' own name, for which lmms-eval would look here, too.
FOLDER = "actplan-annotation"
_ROOM = "Rendered_0_int"
# How task descriptions of the release end.
_INSTRUCTION = (
    "Generate admissible procedural plans without natural language using the planning steps described with "
    "action(object). The available actions include walk_to, place_on_top, grab, place_inside, open/close, and "
    "switch-on/off."
)


class _Activity(NamedTuple):
    """An activity in the scene with a goal; both plans have one step per blank."""

    goal: str
    name: str
    description: int
    task: str
    gold_1: str
    gold_2: str


_ACTIVITIES = (
    _Activity(
        *("put away the rice", "putting_away_the_rice", 0),
        "The task goal is to put the open box of rice from the counter into the cupboard and to wipe the counter.",
        "walk_to(counter) close(rice_box) open(cupboard) grab(rice_box) place_inside(cupboard, rice_box) "
        "close(cupboard) grab(cloth) wipe(counter)",
        "close(rice_box) walk_to(cupboard) open(cupboard) grab(rice_box) place_inside(cupboard, rice_box) "
        "close(cupboard) grab(cloth) walk_to(counter) wipe(counter, cloth)",
    ),
    _Activity(
        *("put away the rice", "putting_away_the_rice", 1),
        "The task goal is to put the open box of rice from the counter into the cupboard and to wipe the counter. The "
        "cloth is dirty.",
        "walk_to(counter) close(rice_box) open(cupboard) grab(rice_box) place_inside(cupboard, rice_box) "
        "close(cupboard) grab(cloth) walk_to(sink) wash(cloth) walk_to(counter) wipe(counter)",
        "grab(cloth) walk_to(sink) wash(cloth) walk_to(counter) close(rice_box) open(cupboard) grab(rice_box) "
        "place_inside(cupboard, rice_box) close(cupboard) wipe(counter, cloth)",
    ),
    _Activity(
        *("drink a glass of juice", "serving_juice", 0),
        "The task goal is to fill the glass on the counter with juice from the fridge.",
        "walk_to(fridge) open(fridge) grab(juice) close(fridge) walk_to(counter) pour(juice, glass)",
        "open(fridge) grab(juice) close(fridge) pour(juice, glass) place_on_top(counter, juice)",
    ),
    _Activity(
        *("make a tomato salad", "preparing_a_tomato_salad", 0),
        "The task goal is to wash the tomato, to cut it on the board and to put it into the bowl.",
        "grab(tomato) walk_to(sink) switch-on(tap) wash(tomato) switch-off(tap) place_on_top(board, tomato) "
        "grab(knife) cut(tomato) place_inside(bowl, tomato)",
        "walk_to(sink) grab(tomato) switch-on(tap) wash(tomato) switch-off(tap) walk_to(board) place_on_top(board, "
        "tomato) grab(knife) cut(tomato, knife) grab(tomato) place_inside(bowl, tomato)",
    ),
    _Activity(
        *("make a tomato salad", "preparing_a_tomato_salad", 1),
        "The task goal is to wash the tomato, to cut it on the board and to put it into the bowl. The knife lies in "
        "the sink and is dirty.",
        "grab(tomato) walk_to(sink) switch-on(tap) wash(tomato) grab(knife) wash(knife) switch-off(tap) "
        "place_on_top(board, tomato) cut(tomato) place_inside(bowl, tomato)",
        "walk_to(sink) switch-on(tap) grab(knife) wash(knife) grab(tomato) wash(tomato) switch-off(tap) walk_to(board) "
        "place_on_top(board, tomato) cut(tomato, knife) grab(tomato) place_inside(bowl, tomato)",
    ),
    _Activity(
        *("plant a seedling", "filling_a_pot", 0),
        "The task goal is to fill the pot with soil, to plant the seedling in it and to water it.",
        "walk_to(table) grab(soil) pour(soil, pot) grab(seedling) place_inside(pot, seedling) grab(watering_can) "
        "pour(watering_can, pot)",
        "grab(soil) pour(soil, pot) grab(seedling) place_inside(pot, seedling) grab(watering_can) "
        "pour(watering_can, seedling) place_on_top(table, watering_can)",
    ),
)


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/actplan-annotation``: six instances with three views each.

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    scenes = {scene.goal: scene for scene in SCENES}
    for activity in _ACTIVITIES:
        description = folder / FOLDER / _ROOM / activity.name / str(activity.description)
        sample = description / "sample_0"
        sample.mkdir(parents=True)
        text = f"{activity.task}\n{_INSTRUCTION}\n"
        (description / f"task_description_{activity.description}.txt").write_text(text, encoding="utf-8")
        for number, view in enumerate(_views(next(scenes[activity.goal].frames()))):
            view.save(sample / f"{number:05}.png")
        for number, plan in enumerate((activity.gold_1, activity.gold_2), 1):
            lines = plan.replace(") ", ")\n")
            (sample / f"plan_gold_{number}.txt").write_text(f"{lines}\n", encoding="utf-8")
    return ["actplan", FOLDER]


def _views(room: Image.Image) -> list[Image.Image]:
    """The whole, and a closer look at its left and its right."""
    half, height = room.width // 2, room.height
    return [room, *(room.crop((left, 0, left + half, height)) for left in (0, half))]
