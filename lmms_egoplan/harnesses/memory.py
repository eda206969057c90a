"""How much memory images and tensors take."""

from collections.abc import Mapping
from typing import Any

import torch
from PIL import Image


def num_bytes(value: Any) -> int:
    """Bytes of all pixels and numbers of tensors in nested lists, tuples and mappings.

    >>> num_bytes([{"image": Image.new("RGB", (4, 2))}, (torch.zeros(3), "text")])
    36
    """
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, Image.Image):
        return value.width * value.height * len(value.getbands())
    if isinstance(value, Mapping):
        return sum(map(num_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(num_bytes, value))
    return 0
