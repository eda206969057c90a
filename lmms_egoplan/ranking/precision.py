"""Control precision.

Compute logits in float32, measure rounding noise in half precision, and keep fractional seconds of
frames.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import repeat
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

# Number of vocabulary rows converted to float32 at a time.
_ROWS = 8192
# Maximum number of tokens whose logits are recomputed. Models without `logits_to_keep` return the
# whole context's.
_MOST_TOKENS = 1024
_CUTS_SECONDS = tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 18)
# Units per second: a power of two, which converts float32 seconds to integers without rounding.
_UNITS = 2**30


@contextmanager
def float32_logits(model: PreTrainedModel) -> Iterator[None]:
    """Compute the output layers in float32 from half-precision inputs.

    In bfloat16, logits near 20 have steps of 0.125. Rounding alone then changes a mean loss over a
    few tokens by more than 0.02 nats between passes. float32 is used only for the candidates' few
    tokens.
    """
    layers = {}
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            layer = module.get_output_embeddings()
            if layer is not None:
                layers[id(layer)] = layer
    with ExitStack() as hooks:
        for layer in layers.values():
            if type(layer) is torch.nn.Linear:
                hooks.enter_context(layer.register_forward_hook(_in_float32))
        yield


@contextmanager
def rounded_at_random(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Change every entry of each layer's output by up to half a unit in the last place.

    The direction is random.

    Repeating a pass then shows the model's rounding noise (Monte Carlo arithmetic). Layers are the
    entries of the model's ``ModuleList`` modules.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def perturb(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        generator = generators.setdefault(
            value.device, torch.Generator(value.device).manual_seed(seed)
        )
        steps = torch.rand(value.shape, generator=generator, device=value.device) - 0.5
        return (value.float() * (1 + steps * torch.finfo(value.dtype).eps)).to(value.dtype)

    def move_output(_module: torch.nn.Module, _inputs: Any, output: Any) -> Any:
        return (perturb(output[0]), *output[1:]) if isinstance(output, tuple) else perturb(output)

    with ExitStack() as hooks:
        for layers in [
            module for module in model.modules() if isinstance(module, torch.nn.ModuleList)
        ]:
            for layer in layers:
                hooks.enter_context(layer.register_forward_hook(move_output))
        yield


def _in_float32(
    layer: torch.nn.Linear, inputs: tuple[Any, ...], output: torch.Tensor
) -> torch.Tensor:
    is_small = len(inputs) == 1 and inputs[0].shape[:-1].numel() <= _MOST_TOKENS
    if output.dtype.itemsize >= 4 or layer.weight.is_meta or not is_small:
        return output
    # split models move them between devices
    states = inputs[0].to(layer.weight.device, torch.float32)
    logits = torch.cat([states @ rows.float().T for rows in layer.weight.split(_ROWS)], dim=-1)
    return (logits if layer.bias is None else logits + layer.bias.float()).to(output.device)


def keep_fractions(model: torch.nn.Module) -> None:
    """Make Qwen2.5-VL position frames as in transformers 5.18 and later.

    Earlier versions truncate the seconds between temporal patches to integers. In a clip with more
    than two frames per second, all frames then have the same time (huggingface/transformers, pull
    request 48669). Other models are not changed.
    """
    if not _CUTS_SECONDS:
        return
    for module in model.modules():
        if isinstance(module, transformers.Qwen2_5_VLModel) and "get_rope_index" not in vars(
            module
        ):
            module.get_rope_index = partial(_rope_index, module.get_rope_index)
            module.get_vision_position_ids = partial(_positions, module.get_vision_position_ids)


def _rope_index(original: Any, *args: Any, second_per_grid_ts: Any = None, **keywords: Any) -> Any:
    seconds = repeat(1) if second_per_grid_ts is None else second_per_grid_ts
    return original(*args, second_per_grid_ts=(value * _UNITS for value in seconds), **keywords)


def _positions(
    original: Any, start: Any, grid: Any, temporal: int, spatial: int, interval: int, device: Any
) -> torch.Tensor:
    """Return time, height and width, shape (3, tokens).

    The interval is in units for a video, and 1 for an image.
    """
    positions = original(start, grid, temporal, spatial, 1, device=device)
    if interval != 1:
        positions[0] = start + ((positions[0] - start) * (interval / _UNITS)).long()
    return positions
