"""BLIP-2 and InstructBLIP, on Flan-T5, OPT and Vicuna: 4 query tokens an image before the text, no chat template."""

from collections.abc import Callable
from typing import Any

from transformers import (
    Blip2Config,
    Blip2Processor,
    BlipImageProcessor,
    InstructBlipConfig,
    InstructBlipProcessor,
    PreTrainedTokenizerBase,
    T5Tokenizer,
)

from . import vocabulary
from .llava import SQUARE, text_config, vision_config

TextConfig = Callable[[PreTrainedTokenizerBase], dict[str, Any]]

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


def _flan_t5(tokenizer: T5Tokenizer) -> dict[str, Any]:
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


def _opt(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    width = {"word_embed_proj_dim": 64, "ffn_dim": 96, "dropout": 0.0}
    return text_config(tokenizer, "opt", **width)


def _blip2(tokenizer: PreTrainedTokenizerBase, text: TextConfig) -> tuple[Blip2Config, Blip2Processor]:
    processor = Blip2Processor(BlipImageProcessor(size=SQUARE), tokenizer, num_query_tokens=QUERIES)
    config = Blip2Config(
        vision_config=vision_config("blip_2_vision_model"),
        qformer_config=QFORMER,
        text_config=text(tokenizer),  # the processor has added a token
        num_query_tokens=QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    return config, processor


def _instructblip(
    tokenizer: PreTrainedTokenizerBase, text: TextConfig
) -> tuple[InstructBlipConfig, InstructBlipProcessor]:
    qformer_tokenizer = vocabulary.bert()
    processor = InstructBlipProcessor(
        BlipImageProcessor(size=SQUARE), tokenizer, qformer_tokenizer, num_query_tokens=QUERIES
    )
    config = InstructBlipConfig(
        vision_config=vision_config("instructblip_vision_model"),
        qformer_config={**QFORMER, "vocab_size": len(qformer_tokenizer)},
        text_config=text(tokenizer),  # the processor has added a token
        num_query_tokens=QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    return config, processor


def blip2() -> tuple[Blip2Config, Blip2Processor]:
    tokenizer = vocabulary.t5()
    return _blip2(tokenizer, _flan_t5)


def blip2_opt() -> tuple[Blip2Config, Blip2Processor]:
    tokenizer = vocabulary.llama2(["<image>"])
    return _blip2(tokenizer, _opt)


def instructblip() -> tuple[InstructBlipConfig, InstructBlipProcessor]:
    tokenizer = vocabulary.t5()
    return _instructblip(tokenizer, _flan_t5)


def instructblip_vicuna() -> tuple[InstructBlipConfig, InstructBlipProcessor]:
    tokenizer = vocabulary.llama2(["<image>"])
    return _instructblip(tokenizer, lambda vocabulary: text_config(vocabulary, "llama"))
