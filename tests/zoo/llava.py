"""The LLaVA line: CLIP or SigLIP, a projector and a language model of the Llama, Mistral or Qwen2 kind."""

from typing import Any

from transformers import (
    CLIPImageProcessor,
    LlavaConfig,
    LlavaNextConfig,
    LlavaNextImageProcessor,
    LlavaNextProcessor,
    LlavaNextVideoConfig,
    LlavaNextVideoProcessor,
    LlavaNextVideoVideoProcessor,
    LlavaOnevisionConfig,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    LlavaProcessor,
    PreTrainedTokenizerBase,
    VideoLlavaConfig,
    VideoLlavaImageProcessor,
    VideoLlavaProcessor,
    VideoLlavaVideoProcessor,
)

from . import prompts, vocabulary

PATCH = 14
SIDE = 56  # pixels: 4 x 4 patches
SQUARE = {"height": SIDE, "width": SIDE}
CROPPED = {"size": {"shortest_edge": SIDE}, "crop_size": SQUARE}
GRID = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]]


def text_config(tokenizer: PreTrainedTokenizerBase, model_type: str, **settings: Any) -> dict[str, Any]:
    """Two layers of width 64 with grouped-query attention, for 2,048 positions."""
    return {
        "model_type": model_type,
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **settings,
    }


def vision_config(model_type: str, **settings: Any) -> dict[str, Any]:
    """Two layers of width 32 over 4 x 4 patches."""
    return {
        "model_type": model_type,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": SIDE,
        "patch_size": PATCH,
        **settings,
    }


def llava() -> tuple[LlavaConfig, LlavaProcessor]:
    tokenizer = vocabulary.llama2(["<image>"])
    processor = LlavaProcessor(
        CLIPImageProcessor(**CROPPED),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=prompts.VICUNA,
    )
    config = LlavaConfig(
        vision_config=vision_config("clip_vision_model"),
        text_config=text_config(tokenizer, "llama"),
        image_token_index=processor.image_token_id,
        image_seq_length=16,
    )
    return config, processor


def llava_next() -> tuple[LlavaNextConfig, LlavaNextProcessor]:
    tokenizer = vocabulary.llama2(["<image>"])
    processor = LlavaNextProcessor(
        LlavaNextImageProcessor(**CROPPED, image_grid_pinpoints=GRID),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=prompts.MISTRAL,
    )
    config = LlavaNextConfig(
        vision_config=vision_config("clip_vision_model"),
        text_config=text_config(tokenizer, "mistral", sliding_window=None),
        image_token_index=processor.image_token_id,
        image_grid_pinpoints=GRID,
        image_seq_length=16,
    )
    return config, processor


def llava_onevision() -> tuple[LlavaOnevisionConfig, LlavaOnevisionProcessor]:
    tokenizer = vocabulary.qwen2(["<image>", "<video>"])
    grid = [[SIDE, SIDE], *GRID]
    processor = LlavaOnevisionProcessor(
        LlavaOnevisionImageProcessor(size=SQUARE, image_grid_pinpoints=grid),
        tokenizer,
        LlavaOnevisionVideoProcessor(size=SQUARE),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=prompts.ONEVISION,
    )
    config = LlavaOnevisionConfig(
        vision_config=vision_config("siglip_vision_model", vision_use_head=False),
        text_config=text_config(tokenizer, "qwen2"),
        image_token_index=processor.image_token_id,
        video_token_index=processor.video_token_id,
        image_grid_pinpoints=grid,
    )
    return config, processor


def llava_next_video() -> tuple[LlavaNextVideoConfig, LlavaNextVideoProcessor]:
    tokenizer = vocabulary.llama2(["<video>", "<image>"])
    processor = LlavaNextVideoProcessor(
        LlavaNextVideoVideoProcessor(**CROPPED),
        LlavaNextImageProcessor(**CROPPED, image_grid_pinpoints=GRID),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=prompts.VICUNA,
    )
    config = LlavaNextVideoConfig(
        vision_config=vision_config("clip_vision_model"),
        text_config=text_config(tokenizer, "llama"),
        image_token_index=processor.image_token_id,
        video_token_index=processor.video_token_id,
        image_grid_pinpoints=GRID,
        image_seq_length=16,
        video_seq_length=4,
    )
    return config, processor


def video_llava() -> tuple[VideoLlavaConfig, VideoLlavaProcessor]:
    tokenizer = vocabulary.llama2(["<image>", "<video>"])
    processor = VideoLlavaProcessor(
        VideoLlavaImageProcessor(**CROPPED),
        VideoLlavaVideoProcessor(**CROPPED),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        chat_template=prompts.VICUNA,
    )
    config = VideoLlavaConfig(
        vision_config=vision_config("clip_vision_model"),
        text_config=text_config(tokenizer, "llama"),
        image_token_index=processor.image_token_id,
        video_token_index=processor.video_token_id,
        image_seq_length=16,
        video_seq_length=17,
    )
    return config, processor
