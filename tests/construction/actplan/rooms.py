"""Small activities in BDDL, and tours of rendered rooms.

Each object has a colour, and a room shows some objects.
"""

import random

import numpy as np
from PIL import Image, ImageFilter

from lmms_egoplan.media.frames import write_video

SIZE = (160, 120)
# Colours that also differ in a JPEG.
COLOURS = {
    "cup": (220, 30, 30),
    "table": (30, 200, 40),
    "sink": (30, 60, 220),
    "cookie": (230, 220, 40),
    "carton": (200, 40, 210),
    "shelf": (40, 210, 210),
    "floor": (245, 245, 245),
}
PROBLEM = """(define (problem {name}_0)
    (:domain igibson)
    (:objects
        {thing}.n.01_1 {thing}.n.01_2 - {thing}.n.01
        {target}.n.01_1 - {target}.n.01
        table.n.02_1 - table.n.02
        agent.n.01_1 - agent.n.01
    )
    (:init
        (ontop {thing}.n.01_1 table.n.02_1)
        (ontop {thing}.n.01_2 table.n.02_1)
        (inroom table.n.02_1 kitchen)
        (inroom {target}.n.01_1 kitchen)
    )
    (:goal (and (forall (?{thing}.n.01 - {thing}.n.01) (inside ?{thing}.n.01 ?{target}.n.01_1))))
)
"""
ACTIVITIES = {
    "cleaning_cups": ("cup", "sink"),
    "packing_cookies": ("cookie", "carton"),
    "storing_cups": ("cup", "shelf"),
    "putting_away_cookies": ("cookie", "shelf"),
    "filling_sink": ("cup", "sink"),
}


def write_activities(folder):
    """Write five activities, each with a human description."""
    for name, (thing, target) in ACTIVITIES.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "problem0.bddl").write_text(
            PROBLEM.format(name=name, thing=thing, target=target)
        )
        (folder / name / "task_description_0.txt").write_text(
            f"The task is {name.replace('_', ' ')}. Two {thing}s are on a table. Put all {thing}s "
            f"into the {target}.\n"
            "Generate admissible procedural plans using the planning steps described with "
            "action(object).\n"
        )
    return folder


def room(*things):
    """Return a sharp picture with a field of each object's colour on grey noise."""
    chance = random.Random(str(things))
    image = Image.frombytes(
        "L", SIZE, bytes(chance.choice((40, 120)) for _ in range(SIZE[0] * SIZE[1]))
    ).convert("RGB")
    for number, thing in enumerate(things):
        image.paste(COLOURS[thing], (8 + 50 * number, 20, 48 + 50 * number, 90))
    return image


def blurred(image):
    return image.filter(ImageFilter.GaussianBlur(4))


def things_of(image):
    """Return the objects whose colour occurs in a picture."""
    pixels = np.asarray(image.resize((40, 30)), dtype=int)
    return [
        thing
        for thing, colour in COLOURS.items()
        if (np.abs(pixels - colour).max(axis=2) < 40).sum() > 20
    ]


def write_tour(path, rooms):
    """Write a video that shows each room for two seconds, blurred at the end."""
    write_video(path, (frame for image in rooms for frame in [image] * 6 + [blurred(image)] * 2), 4)
    return path


def write_folder(folder, images):
    folder.mkdir(parents=True)
    for number, image in enumerate(images):
        image.save(folder / f"{number:05}.png")
    return folder
