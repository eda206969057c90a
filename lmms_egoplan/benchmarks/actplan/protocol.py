"""What a model is shown and asked about an instance: views of its environment and the task description (sec. 3.1)."""

from collections.abc import Mapping
from typing import Any

from PIL import Image


def views(doc: Mapping[str, Any]) -> list[Image.Image]:
    """The views of the environment as RGB images, in the order of the release; Table 6 is without them.

    Args:
        doc: a row of the prepared dataset.
    """
    return [image.convert("RGB") for image in doc["images"]]


def prompt_text(doc: Mapping[str, Any]) -> str:
    """The task description as released; the instruction and the eight actions are part of it (sec. 3.1).

    Args:
        doc: a row of the prepared dataset; only ``task_description`` is read.
    """
    return doc["task_description"]
