"""Qwen's models: multimodal rotary positions, images in native shape, video in pairs of frames."""

from typing import Any

import transformers as hf

from . import prompts, vocabulary
from .llava import text_config


def _tokenizer() -> hf.Qwen2Tokenizer:
    vision = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    return vocabulary.qwen2([*vision, "<think>", "</think>"])


def _ids(tokenizer: hf.PreTrainedTokenizerBase) -> dict[str, int]:
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
    """Settings of image and video processors: 1 to 16 tokens an image, each of 2 x 2 patches."""
    token = (2 * patch) ** 2
    return {"patch_size": patch, "size": {"shortest_edge": token, "longest_edge": 16 * token}}


def _rope(sections: list[int], **settings: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections, **settings}


def _qwen2(config, processor, model_type, **vision):
    tokenizer = _tokenizer()
    made = processor(
        hf.Qwen2VLImageProcessor(**_pixels(14)),
        tokenizer,
        hf.Qwen2VLVideoProcessor(**_pixels(14), cap_pixels_per_frame=True),
        chat_template=prompts.QWEN2_VL,
    )
    text = text_config(tokenizer, model_type, rope_parameters=_rope([2, 3, 3]))
    return config(
        vision_config={"depth": 2, "num_heads": 2} | vision, text_config=text, **_ids(tokenizer)
    ), made


def qwen2_vl():
    vision = {"embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2}
    return _qwen2(hf.Qwen2VLConfig, hf.Qwen2VLProcessor, "qwen2_vl_text", **vision)


def qwen2_5_vl():
    width = {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 64}
    windows = {"window_size": 56, "fullatt_block_indexes": [1]}
    return _qwen2(
        hf.Qwen2_5_VLConfig, hf.Qwen2_5_VLProcessor, "qwen2_5_vl_text", **width, **windows
    )


_QWEN3_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 64,
}


def qwen3_vl():
    tokenizer = _tokenizer()
    rope = _rope([4, 2, 2], mrope_interleaved=True)
    config = hf.Qwen3VLConfig(
        vision_config={**_QWEN3_VISION, "deepstack_visual_indexes": [0]},
        text_config=text_config(tokenizer, "qwen3_vl_text", head_dim=16, rope_parameters=rope),
        **_ids(tokenizer),
    )
    return config, _qwen3_processor(tokenizer, prompts.QWEN3_VL)


def qwen3_vl_moe(num_experts: int):
    """Four layers of experts, of which each token uses 8, as in Qwen3-VL-MoE."""
    tokenizer = _tokenizer()
    experts = {"num_experts": num_experts, "num_experts_per_tok": 8, "moe_intermediate_size": 32}
    rope = _rope([4, 2, 2], mrope_interleaved=True)
    config = hf.Qwen3VLMoeConfig(
        vision_config={**_QWEN3_VISION, "deepstack_visual_indexes": [0]},
        text_config=text_config(
            tokenizer,
            "qwen3_vl_moe_text",
            **experts,
            num_hidden_layers=4,
            decoder_sparse_step=1,
            head_dim=16,
            rope_parameters=rope,
        ),
        **_ids(tokenizer),
    )
    return config, _qwen3_processor(tokenizer, prompts.QWEN3_VL)


def qwen3_5():
    """A layer of linear attention (gated delta rule: a state in place of keys and values) and a
    full one.
    """
    tokenizer = _tokenizer()
    config = hf.Qwen3_5Config(
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


def _qwen3_processor(tokenizer: hf.Qwen2Tokenizer, chat_template: str) -> hf.Qwen3VLProcessor:
    return hf.Qwen3VLProcessor(
        hf.Qwen2VLImageProcessor(**_pixels(16)),
        tokenizer,
        hf.Qwen3VLVideoProcessor(**_pixels(16), cap_pixels_per_frame=True),
        chat_template=chat_template,
    )
