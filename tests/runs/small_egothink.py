"""A few questions of each EgoThink dimension on plain images, prepared in a moment."""

import json
from pathlib import Path

from PIL import Image

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink

QUESTIONS = 4


def colour(dimension: int, number: int) -> tuple[int, int, int]:
    """The image's one colour, of its own for each question."""
    return (20 * dimension, 60 * number, 128)


def prepare_small_egothink(folder: Path) -> None:
    """Prepare all dimensions below `folder`, which ``LMMS_EGOPLAN_DATA`` must name."""
    source = folder / "source"
    for index, dimension in enumerate(DIMENSIONS):
        images = source / dimension.folder / "images"
        images.mkdir(parents=True)
        records = []
        for number in range(1, QUESTIONS + 1):
            Image.new("RGB", (64, 48), colour(index, number)).save(images / f"{number}.png")
            records.append(
                {
                    "source_dataset": "tests",
                    "image_path": [f"{number}.png"],
                    "question": f"What {dimension.name} is {{number}} {number}?",
                    "answer": f"The {number}.",
                }
            )
        (source / dimension.folder / "annotations.json").write_text(json.dumps(records), encoding="utf-8")
    prepare_egothink(source)
