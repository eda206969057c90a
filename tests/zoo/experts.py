"""Mixtures of experts: rounding may choose other experts, so that half precision is noisy."""

from functools import cache

import torch
from transformers import AutoModelForImageTextToText, PreTrainedModel, ProcessorMixin

from . import qwen

_GAIN = 1.25


@cache
def build_experts(num_experts: int, seed: int = 0) -> tuple[PreTrainedModel, ProcessorMixin]:
    """A model of Qwen3-VL-MoE's shape (float32, evaluation mode), and its processor; as
    `zoo.build`.
    """
    config, processor = qwen.qwen3_vl_moe(num_experts)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            if ".experts." in name:  # shape (experts, outputs, inputs)
                parameter.normal_(0, _GAIN / parameter.shape[-1] ** 0.5)
            elif parameter.ndim > 1:
                parameter.normal_(0, _GAIN / parameter.shape[1:].numel() ** 0.5)
    return model.eval(), processor
