"""A model's rounding noise, by Monte Carlo arithmetic: the same pass again, each layer's output rounded at random."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def rounded_at_random(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Within it, every entry of each layer's output is moved by up to one unit in the last place, either way.

    Layers are what stands in the model's lists of modules.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        generator = generators.setdefault(value.device, torch.Generator(value.device).manual_seed(seed))
        steps = 2 * torch.rand(value.shape, generator=generator, device=value.device) - 1
        return (value.float() * (1 + steps * torch.finfo(value.dtype).eps)).to(value.dtype)

    def move_output(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        return (moved(output[0]), *output[1:]) if isinstance(output, tuple) else moved(output)

    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    hooks = [layer.register_forward_hook(move_output) for layers in lists for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
