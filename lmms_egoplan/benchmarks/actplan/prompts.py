"""Return what a model is asked and shown: the released description, and the views (sec. 3.1)."""

from collections.abc import Mapping
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.splits import ACTPLAN


def views(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return the views of the environment as RGB images, in the order of the release.

    Table 6 omits them.

    Args:
        doc: A row of the prepared dataset. If it has a partner (`views_swapped`), the partner's
            views are returned.
    """
    row = ACTPLAN.load("test")[doc["partner"]["row"]] if "partner" in doc else doc
    return [image.convert("RGB") for image in row["images"]]


def prompt_text(doc: Mapping[str, Any]) -> str:
    """Return the task description as released.

    It includes the instruction and the eight actions (sec. 3.1).

    Args:
        doc: A row of the prepared dataset; only ``task_description`` is read.
    """
    return doc["task_description"]
