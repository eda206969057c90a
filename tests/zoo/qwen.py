"""Qwen's models: multimodal rotary positions, images in their own shape, video in pairs of frames."""

from typing import Any

from transformers import (
    PreTrainedTokenizerBase,
    Qwen2_5_VLConfig,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
    Qwen2VLConfig,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
    Qwen3_5Config,
    Qwen3VLConfig,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from . import prompts, vocabulary
from .llava import text_config


def _tokenizer() -> Qwen2Tokenizer:
    vision = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    return vocabulary.qwen2([*vision, "<think>", "</think>"])


def _ids(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    return {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(token)
        for name, token in (
            ("image", "<|image_pad|>"),
            ("video", "<|video_pad|>"),
            ("vision_start", "<|vision_start|>"),
            ("vision_end", "<|vision_end|>"),
        )
    }


def _pixels(patch: int) -> dict[str, Any]:
    """Settings of the image and video processors: 1 to 16 tokens an image, each of 2 x 2 patches."""
    token = (2 * patch) ** 2
    return {"patch_size": patch, "size": {"shortest_edge": token, "longest_edge": 16 * token}}


def _rope(sections: list[int], **settings: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections, **settings}


def qwen2_vl() -> tuple[Qwen2VLConfig, Qwen2VLProcessor]:
    tokenizer = _tokenizer()
    processor = Qwen2VLProcessor(
        Qwen2VLImageProcessor(**_pixels(14)),
        tokenizer,
        Qwen2VLVideoProcessor(**_pixels(14), cap_pixels_per_frame=True),
        chat_template=prompts.QWEN2_VL,
    )
    config = Qwen2VLConfig(
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2, "num_heads": 2},
        text_config=text_config(tokenizer, "qwen2_vl_text", rope_parameters=_rope([2, 3, 3])),
        **_ids(tokenizer),
    )
    return config, processor


def qwen2_5_vl() -> tuple[Qwen2_5_VLConfig, Qwen2_5_VLProcessor]:
    tokenizer = _tokenizer()
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(**_pixels(14)),
        tokenizer,
        Qwen2VLVideoProcessor(**_pixels(14), cap_pixels_per_frame=True),
        chat_template=prompts.QWEN2_VL,
    )
    config = Qwen2_5_VLConfig(
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 64,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
        text_config=text_config(tokenizer, "qwen2_5_vl_text", rope_parameters=_rope([2, 3, 3])),
        **_ids(tokenizer),
    )
    return config, processor


_QWEN3_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 64,
}


def qwen3_vl() -> tuple[Qwen3VLConfig, Qwen3VLProcessor]:
    tokenizer = _tokenizer()
    rope = _rope([4, 2, 2], mrope_interleaved=True)
    config = Qwen3VLConfig(
        vision_config={**_QWEN3_VISION, "deepstack_visual_indexes": [0]},
        text_config=text_config(tokenizer, "qwen3_vl_text", head_dim=16, rope_parameters=rope),
        **_ids(tokenizer),
    )
    return config, _qwen3_processor(tokenizer, prompts.QWEN3_VL)


def qwen3_5() -> tuple[Qwen3_5Config, Qwen3VLProcessor]:
    """A layer of linear attention (gated delta rule: a state in place of keys and values) and a full one."""
    tokenizer = _tokenizer()
    config = Qwen3_5Config(
        vision_config=_QWEN3_VISION,
        text_config=text_config(
            tokenizer,
            "qwen3_5_text",
            head_dim=32,
            layer_types=["linear_attention", "full_attention"],
            linear_key_head_dim=16,
            linear_value_head_dim=16,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            rope_parameters=_rope([4, 2, 2], mrope_interleaved=True, partial_rotary_factor=0.5),
        ),
        **_ids(tokenizer),
    )
    return config, _qwen3_processor(tokenizer, prompts.QWEN3_5)


def _qwen3_processor(tokenizer: Qwen2Tokenizer, chat_template: str) -> Qwen3VLProcessor:
    return Qwen3VLProcessor(
        Qwen2VLImageProcessor(**_pixels(16)),
        tokenizer,
        Qwen3VLVideoProcessor(**_pixels(16), cap_pixels_per_frame=True),
        chat_template=chat_template,
    )
