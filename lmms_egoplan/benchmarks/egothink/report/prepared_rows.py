"""EgoThink's questions and images as they are prepared on this machine."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.report.answers import Key
from lmms_egoplan.benchmarks.egothink.splits import PREPARED

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL import Image


def prepared_questions(
    keys: Iterable[Key],
) -> tuple[dict[Key, tuple[str, "partial[list[Image.Image]]"]], dict[str, str]]:
    """Question and images of what is prepared, and by dimension why it cannot be read."""
    found, problems = {}, {}
    for name in dict.fromkeys(dimension_of(question_id) for question_id, _ in keys):
        try:
            rows = PREPARED.load(name)
            texts = rows.select_columns(["id", "question", "answer"])
            images = rows.select_columns(["image"])
            for number, row in enumerate(texts):
                found[row["id"], row["answer"]] = row["question"], partial(_images, images, number)
        except (OSError, ValueError) as error:  # What is missing or damaged, of which `datasets` has many kinds.
            problems[name] = str(error)
    return found, problems


def _images(rows: "Dataset", number: int) -> "list[Image.Image]":
    return [rows[number]["image"].convert("RGB")]
