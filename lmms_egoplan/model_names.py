"""Shorten names of models and checkpoints."""

import re

CHECKPOINT = r"(?:checkpoint|ckpt|step|epoch|iter)[-_]?\d+"
"""Regular expression for a checkpoint's number in the name of a model or folder.

Use it with IGNORECASE.
"""


def short_name(model: str) -> str:
    """Return the last part of a model's name.

    For a checkpoint, include the folder of its training run.
    """
    folders, _, end = model.rpartition("/")
    folder = folders.rpartition("/")[2]
    return f"{folder}/{end}" if folder and re.fullmatch(CHECKPOINT, end, re.IGNORECASE) else end
