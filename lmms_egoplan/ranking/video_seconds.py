"""The seconds at which Qwen2.5-VL places the frames of a video, with every version of transformers."""

from functools import partial
from itertools import repeat
from typing import Any

import torch
import transformers

_CUTS_SECONDS = tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 18)
# Per second: a power of two, so that seconds in float32 become whole numbers without rounding.
_UNITS = 2**30


def keep_fractions(model: torch.nn.Module) -> None:
    """Have Qwen2.5-VL place frames as it does from transformers 5.18 on.

    Earlier versions cut the seconds between its temporal patches to whole ones, so that all frames of a clip with more
    than two per second stand at the same time (huggingface/transformers, pull request 48669). Other models stay as they
    are.
    """
    if not _CUTS_SECONDS:
        return
    for module in model.modules():
        if isinstance(module, transformers.Qwen2_5_VLModel) and "get_rope_index" not in vars(module):
            module.get_rope_index = partial(_rope_index, module.get_rope_index)
            module.get_vision_position_ids = partial(_positions, module.get_vision_position_ids)


def _rope_index(original: Any, *args: Any, second_per_grid_ts: Any = None, **keywords: Any) -> Any:
    seconds = repeat(1) if second_per_grid_ts is None else second_per_grid_ts
    return original(*args, second_per_grid_ts=(value * _UNITS for value in seconds), **keywords)


def _positions(
    original: Any, start: Any, grid: Any, temporal: int, spatial: int, interval: int, device: Any
) -> torch.Tensor:
    """Shape (3, tokens): time, height, width. The interval is in units for a video, and 1 for an image."""
    positions = original(start, grid, temporal, spatial, 1, device=device)
    if interval != 1:
        positions[0] = start + ((positions[0] - start) * (interval / _UNITS)).long()
    return positions
