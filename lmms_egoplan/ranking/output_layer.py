"""Logits in float32 from models in half precision.

A logit of 20 has steps of 0.125 in bfloat16, so that a mean loss over a few tokens differs by more than 0.02 nats
between passes that are equal but for rounding. The output layer is therefore computed in float32, for the candidates'
few tokens.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

# Rows of the vocabulary whose weights are in float32 at a time.
_ROWS = 8192
# Logits of more tokens, which a model without `logits_to_keep` gives for the whole context, stay as they are.
_MOST_TOKENS = 1024


@contextmanager
def float32_logits(model: PreTrainedModel) -> Iterator[None]:
    """Within it, the output layers compute in float32 what they are given in half precision."""
    owners = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    layers = {id(layer): layer for owner in owners if (layer := owner.get_output_embeddings()) is not None}
    hooks = [layer.register_forward_hook(_in_float32) for layer in layers.values() if type(layer) is torch.nn.Linear]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _in_float32(layer: torch.nn.Linear, inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
    is_small = len(inputs) == 1 and inputs[0].shape[:-1].numel() <= _MOST_TOKENS
    if output.dtype.itemsize >= 4 or layer.weight.is_meta or not is_small:
        return output
    states = inputs[0].to(layer.weight.device, torch.float32)  # a model spread over devices moves them in between
    logits = torch.cat([states @ rows.float().T for rows in layer.weight.split(_ROWS)], dim=-1)
    return (logits if layer.bias is None else logits + layer.bias.float()).to(output.device)
