"""Declare the arguments of this package's backends for lmms-eval."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lmms_egoplan.harnesses.arguments import (
    BackendArguments,
    adapter,
    argument,
    flag,
    no_template,
    one_of,
    pixels,
    text,
    whole_number,
)
from lmms_egoplan.harnesses.vllm_arguments import OF_CLIENT, VLLMArguments
from lmms_egoplan.ranking.methods import AUTO, PATHS

DTYPES = ("auto", "bfloat16", "float16", "float32")


@dataclass(frozen=True, kw_only=True)
class HFVLMArguments(BackendArguments):
    """Arguments of ``hf_vlm`` and ``llava``, except the checkpoint.

    Attributes:
        dtype: ``auto`` (the checkpoint's), ``bfloat16``, ``float16`` or ``float32``.
        device: ``cuda``, ``cuda:1`` or ``cpu``; by default, this process's accelerator or the CPU.
        device_map: As in transformers; ``auto`` spreads a model over several devices.
        attn_implementation: As in transformers; ``sdpa`` and ``eager`` allow the fastest ranking.
        max_frames_num: Maximum number of frames from a video file.
        min_pixels, max_pixels, video_min_pixels, video_max_pixels: Limits on an image and on each
            frame of a video (`set_budget`); by default, the processor's own.
        batch_size: Number of questions per ``generate`` call. Ranking processes one question, with
            all candidates, at a time.
        revision: The checkpoint's revision.
        trust_remote_code: Run code that comes with the checkpoint.
        score_eos: Append the end-of-turn token to every candidate.
        ranking_path: ``auto``, or the path for ranking: ``packed``, ``cached``, ``shared`` or
            ``full`` (`CandidateRanker`).
        chat_template: ``none`` asks in plain text, without the checkpoint's chat template. By
            default, a checkpoint needs one, unless its family never had one (`may_lack_template`).
        peft: Folder of an adapter for the checkpoint, as written by `save_adapter`.
        workers: Number of threads that decode frames and encode questions in advance; by default,
            one per core of this process, at most 16.
    """

    dtype: str = argument(one_of(*DTYPES), "auto")
    device: str | None = argument(text)
    device_map: str | None = argument(text)
    attn_implementation: str | None = argument(text)
    max_frames_num: int = argument(whole_number, 8)
    min_pixels: int | None = argument(pixels)
    max_pixels: int | None = argument(pixels)
    video_min_pixels: int | None = argument(pixels)
    video_max_pixels: int | None = argument(pixels)
    batch_size: int = argument(whole_number, 1)
    revision: str = argument(text, "main")
    trust_remote_code: bool = argument(flag, default=False)
    score_eos: bool = argument(flag, default=False)
    ranking_path: str = argument(one_of(*PATHS), AUTO)
    chat_template: str | None = argument(no_template)
    peft: str | None = argument(adapter)
    workers: int | None = argument(whole_number)


@dataclass(frozen=True, kw_only=True)
class VLLMRankerArguments(VLLMArguments):
    """Arguments of ``vllm_ranker`` in addition to those of lmms-eval's ``vllm``.

    Attributes:
        score_eos: Append the end-of-turn token to every candidate.
        max_frames_num: Maximum number of frames from a video file.
    """

    WITHOUT_EFFECT: ClassVar[Mapping[str, str]] = {
        "max_new_tokens": "the task sets the limit; --gen_kwargs max_new_tokens=N changes it",
        "max_frame_num": "set max_frames_num",
        "image_first": "remove it; images are where the task puts them",
        "min_image_pixels": "remove it; the checkpoint's processor sets the size",
    }
    ON_SERVER: ClassVar[frozenset[str]] = OF_CLIENT | {"score_eos", "max_frames_num"}

    score_eos: bool = argument(flag, default=False)
    max_frames_num: int = argument(whole_number, 8)


@dataclass(frozen=True, kw_only=True)
class ScriptedArguments(BackendArguments):
    """Arguments of ``scripted``: only those that the harness passes to every model, ignored."""
