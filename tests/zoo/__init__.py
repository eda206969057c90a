"""Tiny vision-language checkpoints with seeded random weights, in the real classes of transformers.

`FAMILIES` lists them; `build` makes one in memory and `save` writes one that `AutoProcessor` and
`AutoModelForImageTextToText` load without a network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import transformers
from packaging.version import Version
from transformers import (
    AutoModelForImageTextToText,
    PreTrainedConfig,
    PreTrainedModel,
    ProcessorMixin,
)

from . import blip, llava, others, qwen

# Standard deviation of a unit that reads normalised input. From about 1 on, tokens, images and
# positions change the likelihoods clearly; by transformers' own initialisation all candidates are
# equally likely.
GAIN = 1.25
BEFORE_5_16 = Version(transformers.__version__) < Version("5.16")


@dataclass(frozen=True)
class Family:
    """A model family: functions that build its configuration and processor, and its supported
    inputs.
    """

    name: str
    parts: Callable[[], tuple[PreTrainedConfig, ProcessorMixin]]
    takes_video: bool = False
    has_chat_template: bool = True
    is_encoder_decoder: bool = False


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("llava", llava.llava),
        Family("llava_next", llava.llava_next),
        Family("llava_onevision", llava.llava_onevision, takes_video=True),
        Family("llava_next_video", llava.llava_next_video, takes_video=True),
        # Before transformers 5.16, chat templates pass on an argument that the processor of
        # Video-LLaVA refuses.
        *(() if BEFORE_5_16 else [Family("video_llava", llava.video_llava, takes_video=True)]),
        Family("qwen2_vl", qwen.qwen2_vl, takes_video=True),
        Family("qwen2_5_vl", qwen.qwen2_5_vl, takes_video=True),
        Family("qwen3_vl", qwen.qwen3_vl, takes_video=True),
        Family("qwen3_5", qwen.qwen3_5, takes_video=True),
        Family("internvl", others.internvl, takes_video=True),
        Family("idefics3", others.idefics3),
        Family("gemma3", others.gemma3),
        Family("mllama", others.mllama),
        Family("paligemma", others.paligemma, has_chat_template=False),
        Family("blip2", blip.blip2, has_chat_template=False, is_encoder_decoder=True),
        Family("blip2_opt", blip.blip2_opt, has_chat_template=False),
        Family(
            "instructblip_vicuna",
            blip.instructblip_vicuna,
            has_chat_template=False,
        ),
        Family("instructblip", blip.instructblip, has_chat_template=False, is_encoder_decoder=True),
    )
}


@cache
def build(name: str) -> tuple[PreTrainedModel, ProcessorMixin]:
    """The family's model (float32, evaluation mode) and its processor, shared by all callers in a
    process.

    The weights are the same in every process. Raises KeyError if `name` is not in `FAMILIES`.
    """
    config, processor = FAMILIES[name].parts()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, GAIN / parameter.shape[1:].numel() ** 0.5)
            elif parameter.numel() == 1:  # Mllama's gates, zero at first, keep images out
                parameter.fill_(1)
    return model.eval(), processor


def save(name: str, folder: Path) -> Path:
    """Writes the family's checkpoint and processor into `folder`, and returns it."""
    model, processor = build(name)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
