"""The LLaVA line:

CLIP or SigLIP, a projector and a language model of the Llama, Mistral or Qwen2 kind.
"""

from typing import Any

import transformers as hf

from . import prompts, vocabulary

PATCH = 14
SIDE = 56  # pixels: 4 x 4 patches
SQUARE = {"height": SIDE, "width": SIDE}
CROPPED = {"size": {"shortest_edge": SIDE}, "crop_size": SQUARE}
GRID = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]]


def text_config(
    tokenizer: hf.PreTrainedTokenizerBase, model_type: str, **settings: Any
) -> dict[str, Any]:
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


# Settings of the processors whose images have a class token, and of the models: 4 x 4 patches an
# image.
_STRATEGY = {"patch_size": PATCH, "vision_feature_select_strategy": "default"}
_CLASS_TOKEN = {"num_additional_image_tokens": 1}


def _config(config, processor, tokenizer, model_type="llama", **settings):
    text = {"sliding_window": None} if model_type == "mistral" else {}
    return config(
        vision_config=vision_config("clip_vision_model"),
        text_config=text_config(tokenizer, model_type, **text),
        image_token_index=processor.image_token_id,
        image_seq_length=16,
        **settings,
    )


def llava():
    tokenizer = vocabulary.llama2(["<image>"])
    images = hf.CLIPImageProcessor(**CROPPED)
    processor = hf.LlavaProcessor(
        images, tokenizer, chat_template=prompts.VICUNA, **_STRATEGY, **_CLASS_TOKEN
    )
    return _config(hf.LlavaConfig, processor, tokenizer), processor


def llava_next():
    tokenizer = vocabulary.llama2(["<image>"])
    images = hf.LlavaNextImageProcessor(**CROPPED, image_grid_pinpoints=GRID)
    processor = hf.LlavaNextProcessor(
        images, tokenizer, chat_template=prompts.MISTRAL, **_STRATEGY, **_CLASS_TOKEN
    )
    return _config(
        hf.LlavaNextConfig, processor, tokenizer, "mistral", image_grid_pinpoints=GRID
    ), processor


def llava_onevision():
    tokenizer = vocabulary.qwen2(["<image>", "<video>"])
    grid = [[SIDE, SIDE], *GRID]
    processor = hf.LlavaOnevisionProcessor(
        hf.LlavaOnevisionImageProcessor(size=SQUARE, image_grid_pinpoints=grid),
        tokenizer,
        hf.LlavaOnevisionVideoProcessor(size=SQUARE),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=prompts.ONEVISION,
    )
    config = hf.LlavaOnevisionConfig(
        vision_config=vision_config("siglip_vision_model", vision_use_head=False),
        text_config=text_config(tokenizer, "qwen2"),
        image_token_index=processor.image_token_id,
        video_token_index=processor.video_token_id,
        image_grid_pinpoints=grid,
    )
    return config, processor


def llava_next_video():
    tokenizer = vocabulary.llama2(["<video>", "<image>"])
    videos = hf.LlavaNextVideoVideoProcessor(**CROPPED)
    images = hf.LlavaNextImageProcessor(**CROPPED, image_grid_pinpoints=GRID)
    processor = hf.LlavaNextVideoProcessor(
        videos, images, tokenizer, chat_template=prompts.VICUNA, **_STRATEGY, **_CLASS_TOKEN
    )
    video = {"video_token_index": processor.video_token_id, "video_seq_length": 4}
    return _config(
        hf.LlavaNextVideoConfig, processor, tokenizer, image_grid_pinpoints=GRID, **video
    ), processor


def video_llava():
    tokenizer = vocabulary.llama2(["<image>", "<video>"])
    images, videos = hf.VideoLlavaImageProcessor(**CROPPED), hf.VideoLlavaVideoProcessor(**CROPPED)
    processor = hf.VideoLlavaProcessor(
        images, videos, tokenizer, chat_template=prompts.VICUNA, **_STRATEGY
    )
    video = {"video_token_index": processor.video_token_id, "video_seq_length": 17}
    return _config(hf.VideoLlavaConfig, processor, tokenizer, **video), processor
