"""Declare the arguments of this package's model classes for lm-eval."""

from dataclasses import dataclass
from typing import ClassVar

from lmms_egoplan.harnesses.arguments import (
    LOADING,
    BackendArguments,
    adapter_or_name,
    argument,
    flag,
    one_of,
    pixels,
    text,
    whole_number,
)
from lmms_egoplan.harnesses.vllm_arguments import OF_CLIENT, VLLMArguments
from lmms_egoplan.ranking.methods import AUTO, PATHS

PROMPT_SETTINGS = {
    "interleave": True,
    "max_images": 999,
    "image_width": None,
    "image_height": None,
    "image_max_side": None,
}
"""Settings of lm-eval's classes for prompts and images, with their defaults."""

# Names of types of torch.
_DTYPES = (
    "auto",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "half",
    "float",
    "double",
)


@dataclass(frozen=True, kw_only=True)
class HFVLMRankerArguments(BackendArguments):
    """Arguments of ``hf-vlm-ranker`` in addition to those of lm-eval's ``hf-multimodal``.

    Attributes:
        ranking_path: ``auto``, or the path for ranking: ``packed``, ``cached``, ``shared`` or
            ``full`` (`CandidateRanker`).
        workers: Number of threads that read images and encode questions and batches in advance; by
            default, one per core of this process, at most 16.
        min_pixels, max_pixels, video_min_pixels, video_max_pixels: As in `set_budget`. The first
            two limit only images, and are refused where the parent class would ignore them.
        revision: The checkpoint's revision.
        trust_remote_code: Run code that comes with the checkpoint.
        dtype: Type of the weights in memory; the parent's default if None.
        peft: Folder of an adapter for the checkpoint, or its name on the hub.
    """

    IS_OPEN: ClassVar[bool] = True
    PASSED_ON: ClassVar[frozenset[str]] = LOADING | {"dtype", "peft"}

    ranking_path: str = argument(one_of(*PATHS), AUTO)
    workers: int | None = argument(whole_number)
    min_pixels: int | None = argument(pixels)
    max_pixels: int | None = argument(pixels)
    video_min_pixels: int | None = argument(pixels)
    video_max_pixels: int | None = argument(pixels)
    revision: str = argument(text, "main")
    trust_remote_code: bool = argument(flag, default=False)
    dtype: str | None = argument(one_of(*_DTYPES))
    peft: str | None = argument(adapter_or_name)


@dataclass(frozen=True, kw_only=True)
class VLLMVLMRankerArguments(VLLMArguments):
    """Arguments of ``vllm-vlm-ranker`` in addition to those of lm-eval's ``vllm-vlm``."""

    ON_SERVER: ClassVar[frozenset[str]] = OF_CLIENT | {*PROMPT_SETTINGS}
