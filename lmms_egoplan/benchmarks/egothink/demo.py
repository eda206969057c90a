"""The demo's EgoThink: views of the rendered scenes, with questions about them in the official layout."""

import json
from pathlib import Path

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.demo.scenes import SCENES
from lmms_egoplan.paths import rows_beside

TASKS = ("egothink_bench",)

FOLDER = "egothink"

SCORES = dict.fromkeys((*TASKS, *(dimension.task for dimension in DIMENSIONS)), "score")

# Frames from a step's first one, at which nothing happens, or a hand acts.
_MOMENTS = {"before": -4, "during": 7}


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/egothink``: for each of the twelve dimensions two questions and their images.

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    views = {scene.goal: (scene, list(scene.frames())) for scene in SCENES}
    rows = rows_beside(__file__)
    for dimension in DIMENSIONS:
        root = folder / FOLDER / dimension.folder
        (root / "images").mkdir(parents=True)
        records = []
        for number, row in enumerate((row for row in rows if row["dimension"] == dimension.name), 1):
            scene, frames = views[row["goal"]]
            first = scene.span(int(row["step"]))[0]
            frames[first + _MOMENTS[row["moment"]]].save(root / "images" / f"{number}.jpg", quality=90)
            records.append(
                {
                    "source_dataset": "rendered",
                    "image_path": [f"{number}.jpg"],
                    "question": row["question"],
                    "answer": row["answer"],
                }
            )
        (root / "annotations.json").write_text(json.dumps(records, indent=4) + "\n", encoding="utf-8")
    return ["egothink", FOLDER]
