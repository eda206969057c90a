"""Decoder-only families of other lines:

InternVL, Idefics3, Gemma 3, Llama 3.2 Vision and PaliGemma.
"""

import transformers as hf

from . import prompts, vocabulary
from .llava import SIDE, SQUARE, text_config, vision_config


def internvl():
    tokenizer = vocabulary.qwen2(
        ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"],
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    processor = hf.InternVLProcessor(
        hf.GotOcr2ImageProcessor(size=SQUARE, crop_to_patches=True, max_patches=4),
        tokenizer,
        hf.InternVLVideoProcessor(size=SQUARE),
        image_seq_length=4,
        chat_template=prompts.INTERNVL,
    )
    config = hf.InternVLConfig(
        vision_config=vision_config("internvl_vision", layer_scale_init_value=1.0),
        text_config=text_config(tokenizer, "qwen2"),
        image_token_id=processor.image_token_id,
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    return config, processor


def idefics3():
    """Images in tiles of 56 pixels, at most 2 x 2 of them, and the whole: 4 tokens each."""
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    image = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    tokenizer = vocabulary.llama3([*image, *tiles], eos="<end_of_utterance>")
    processor = hf.Idefics3Processor(
        hf.Idefics3ImageProcessor(
            size={"longest_edge": 2 * SIDE}, max_image_size={"longest_edge": SIDE}
        ),
        tokenizer,
        image_seq_len=4,
        chat_template=prompts.IDEFICS3,
    )
    config = hf.Idefics3Config(
        vision_config=vision_config("idefics3_vision"),
        text_config=text_config(tokenizer, "llama"),
        image_token_id=processor.image_token_id,
        pad_token_id=tokenizer.pad_token_id,
        scale_factor=2,
    )
    return config, processor


def gemma3():
    """A layer with a window of 16 tokens and a full one; the tokens of an image see each other both
    ways.
    """
    turn = ["<start_of_turn>", "<end_of_turn>"]
    image = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    tokenizer = vocabulary.gemma([*turn, *image.values()], **image)
    processor = hf.Gemma3Processor(
        hf.Gemma3ImageProcessor(size=SQUARE),
        tokenizer,
        image_seq_length=4,
        chat_template=prompts.GEMMA3,
    )
    eos = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<end_of_turn>")]
    config = hf.Gemma3Config(
        vision_config=vision_config("siglip_vision_model", vision_use_head=False),
        text_config=text_config(
            tokenizer,
            "gemma3_text",
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=16,
            layer_types=["sliding_attention", "full_attention"],
            eos_token_id=eos,
        ),
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_index=tokenizer.image_token_id,
        eos_token_id=eos,
    )
    return config, processor


def mllama():
    """Images reach the text through a layer of cross-attention, not through tokens of their own."""
    header = [
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
        "<|image|>",
    ]
    tokenizer = vocabulary.llama3(header, eos="<|eot_id|>")
    processor = hf.MllamaProcessor(
        hf.MllamaImageProcessor(size=SQUARE, max_image_tiles=4),
        tokenizer,
        chat_template=prompts.MLLAMA,
    )
    settings = text_config(
        tokenizer, "mllama_text_model", num_hidden_layers=3, cross_attention_layers=[1]
    )
    # The image token is the last one of the tokenizer, and the model has no logit for it.
    settings["vocab_size"] = processor.image_token_id
    config = hf.MllamaConfig(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "vision_output_dim": 64,
            "intermediate_layers_indices": [0],
            "image_size": SIDE,
        },
        text_config=settings,
        image_token_index=processor.image_token_id,
    )
    return config, processor


def paligemma():
    """A prefix language model: images and prompt see each other both ways, the answer only the
    past.
    """
    tokenizer = vocabulary.gemma(["<image>"], image_token="<image>")
    image_processor = hf.SiglipImageProcessor(size=SQUARE)
    image_processor.image_seq_length = 16
    processor = hf.PaliGemmaProcessor(image_processor, tokenizer)
    config = hf.PaliGemmaConfig(
        vision_config=vision_config("siglip_vision_model", vision_use_head=False),
        text_config=text_config(tokenizer, "gemma", head_dim=16),
        image_token_index=processor.image_token_id,
        projection_dim=64,
        hidden_size=64,
    )
    return config, processor
