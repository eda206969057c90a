"""BLIP-2 and InstructBLIP, on Flan-T5, OPT and Vicuna:

4 query tokens an image before the text, no chat template.
"""

from collections.abc import Callable
from typing import Any

import transformers as hf

from . import vocabulary
from .llava import SQUARE, text_config, vision_config

TextConfig = Callable[[hf.PreTrainedTokenizerBase], dict[str, Any]]

QUERIES = 4
QFORMER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "cross_attention_frequency": 1,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def _flan_t5(tokenizer: hf.T5Tokenizer) -> dict[str, Any]:
    return {
        "model_type": "t5",
        "vocab_size": len(tokenizer),
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 96,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "dropout_rate": 0.0,
        "decoder_start_token_id": tokenizer.pad_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def _opt(tokenizer: hf.PreTrainedTokenizerBase) -> dict[str, Any]:
    width = {"word_embed_proj_dim": 64, "ffn_dim": 96, "dropout": 0.0}
    return text_config(tokenizer, "opt", **width)


def _blip2(tokenizer, text):
    processor = hf.Blip2Processor(
        hf.BlipImageProcessor(size=SQUARE), tokenizer, num_query_tokens=QUERIES
    )
    return _config(hf.Blip2Config, "blip_2_vision_model", tokenizer, text, QFORMER), processor


def _instructblip(tokenizer, text):
    qformer_tokenizer = vocabulary.bert()
    images = hf.BlipImageProcessor(size=SQUARE)
    processor = hf.InstructBlipProcessor(
        images, tokenizer, qformer_tokenizer, num_query_tokens=QUERIES
    )
    qformer = {**QFORMER, "vocab_size": len(qformer_tokenizer)}
    return _config(
        hf.InstructBlipConfig, "instructblip_vision_model", tokenizer, text, qformer
    ), processor


def _config(config, vision, tokenizer, text, qformer):
    """Build the configuration after the processor, which adds a token."""
    return config(
        vision_config=vision_config(vision),
        qformer_config=qformer,
        text_config=text(tokenizer),
        num_query_tokens=QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )


def blip2():
    return _blip2(vocabulary.t5(), _flan_t5)


def blip2_opt():
    return _blip2(vocabulary.llama2(["<image>"]), _opt)


def instructblip():
    return _instructblip(vocabulary.t5(), _flan_t5)


def instructblip_vicuna():
    return _instructblip(
        vocabulary.llama2(["<image>"]), lambda tokenizer: text_config(tokenizer, "llama")
    )
