"""What the prepared data have of the instances."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.actplan.prepare import SPLIT
from lmms_egoplan.benchmarks.actplan.report.plans import instance_key
from lmms_egoplan.benchmarks.actplan.splits import PREPARED

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL import Image


def prepared_instances() -> "tuple[dict[str, tuple[str, Callable[[], list[Image.Image]]]], str | None]":
    """Task description and images of the prepared instances, and why there are none."""
    try:
        rows = PREPARED.load(SPLIT)
        texts = rows.select_columns(["id", "task_description", "gold_plan_1", "gold_plan_2"])
        images = rows.select_columns(["images"])
        found = {
            instance_key(row["id"], (row["gold_plan_1"], row["gold_plan_2"])): (
                row["task_description"],
                partial(_images, images, number),
            )
            for number, row in enumerate(texts)
        }
    except (OSError, ValueError) as error:  # What is missing or damaged, of which `datasets` has many kinds.
        return {}, str(error)
    return found, None


def _images(rows: "Dataset", number: int) -> "list[Image.Image]":
    return [image.convert("RGB") for image in rows[number]["images"]]
