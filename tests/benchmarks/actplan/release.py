"""A small version of ActPlan-1K's release: the same layout, with generated images, task
descriptions and plans.
"""

import random
from pathlib import Path

from lmms_egoplan.benchmarks.actplan.instances import InstanceId
from media.files import number_image

SCENES = (
    "Beechwood_0_int", "Beechwood_1_int", "Benevolence_0_int", "Benevolence_1_int",
    "Benevolence_2_int", "Ihlen_0_int", "Ihlen_1_int", "Merom_0_int", "Merom_1_int",
    "Pomaria_0_int", "Pomaria_1_int", "Pomaria_2_int", "Rs_int", "Wainscott_0_int",
    "Wainscott_1_int",
)  # fmt: skip
ACTIVITIES = (
    "assembling_gift_baskets", "cleaning_freezer", "filling_an_Easter_basket", "packing_lunches",
    "putting_leftovers_away", "storing_food", "making_tea", "cleaning_shoes",
    "filling_a_Christmas_stocking", "packing_picnics", "putting_away_toys", "storing_the_groceries",
    "watering_houseplants", "cleaning_windows", "packing_child_s_bag",
    "putting_dishes_away_after_cleaning", "putting_up_Christmas_decorations_inside", "sorting_mail",
    "unpacking_suitcase",
)  # fmt: skip
ENDING = (
    "Generate admissible procedural plans using the planning steps described with action(object). "
    "The available actions include walk_to, place_on_top, grab, place_inside, open/close, and "
    "switch-on/off."
)

_OBJECTS = (
    "cookie",
    "candle",
    "plate",
    "towel",
    "bottle",
    "apple",
    "notebook",
    "cup",
    "soap",
    "box_1",
    "box_2",
)
_PLACES = (
    "table",
    "countertop",
    "cabinet",
    "electric_refrigerator",
    "sink",
    "basket_1",
    "basket_2",
    "floor",
)


def instance_ids(instances):
    """Return distinct ids; every scene, activity and setting occurs early."""
    for number in range(instances):
        rounds, activity = divmod(number, len(ACTIVITIES))
        turn, description = divmod(rounds, 2)
        sample, shift = divmod(turn, len(SCENES))
        yield InstanceId(
            SCENES[(shift + activity) % len(SCENES)], ACTIVITIES[activity], description, sample
        )


def write_release(folder: Path, instances=60, seed=0) -> Path:
    """Write a release with this many instances; every tenth has no gold plan 2.

    Gold plan 1 of the instance at position i has 3 + 7 i mod 58 steps. Its two to five images show
    5 i, 5 i + 1 and so on (`media.read_number`). Equal arguments produce equal files.
    """
    chance = random.Random(seed)
    for number, instance in enumerate(instance_ids(instances)):
        steps = plan(chance, 3 + 7 * number % 58)
        write_instance(
            folder,
            instance,
            images=[number_image(5 * number + image) for image in range(2 + number % 4)],
            suffix=(".png", ".jpg")[number % 2],
            gold_1=steps,
            gold_2=None if number % 10 == 9 else variant(chance, steps),
        )
    return folder


def write_instance(
    folder: Path, instance: InstanceId, images, gold_1, gold_2, suffix=".png"
) -> Path:
    """Write one instance's folder, with the task description one folder above; a gold plan that is
    None is omitted.
    """
    instance_folder = folder / str(instance)
    instance_folder.mkdir(parents=True)
    (instance_folder.parent / f"task_description_{instance.description}.txt").write_text(
        task_description(instance)
    )
    (instance_folder.parent / f"problem{instance.description}.bddl").write_text(
        f"(define (problem {instance.activity}_{instance.description}))\n"
    )
    for position, image in enumerate(images):
        image.save(instance_folder / f"{14 + 41 * position:05}{suffix}")
    for name, steps in (("gold_1", gold_1), ("gold_2", gold_2), ("gpt-4v", gold_1 and gold_1[:-1])):
        if steps is not None:
            (instance_folder / f"plan_{name}.txt").write_text(
                "".join(f"{step}\n" for step in steps)
            )
    return instance_folder


def task_description(instance: InstanceId) -> str:
    """Return a description with the ending that most published ones have."""
    words = instance.activity.replace("_", " ")
    situation = " One of the objects is broken." if instance.description else ""
    return f"The task goal is {words} in the rooms shown in the images.{situation} \n{ENDING}\n"


def plan(chance: random.Random, length: int) -> list[str]:
    """Return steps in the published form."""
    steps: list[str] = []
    while len(steps) < length:
        thing, start, end = chance.choice(_OBJECTS), *chance.sample(_PLACES, 2)
        steps += [f"walk_to({start})", f"grab({thing})", f"walk_to({end})"]
        steps.append(
            chance.choice(
                (f"place_inside({end}, {thing})", f"place_on_top({end}, {thing})", f"open({end})")
            )
        )
    return steps[:length]


def variant(chance: random.Random, steps: list[str]) -> list[str]:
    """Return another plan of similar length: one step in five is omitted or repeated."""
    changed = [step for step in steps for _ in range(chance.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 2)))]
    return changed or steps[:1]
