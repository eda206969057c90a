"""BLIP-2 and InstructBLIP on Flan-T5: 4 query tokens an image before the encoder's text, no chat template."""

from typing import Any

from transformers import (
    Blip2Config,
    Blip2Processor,
    BlipImageProcessor,
    InstructBlipConfig,
    InstructBlipProcessor,
    T5Tokenizer,
)

from . import vocabulary
from .llava import SQUARE, vision_config

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


def blip2() -> tuple[Blip2Config, Blip2Processor]:
    tokenizer = vocabulary.t5()
    processor = Blip2Processor(BlipImageProcessor(size=SQUARE), tokenizer, num_query_tokens=QUERIES)
    config = Blip2Config(
        vision_config=vision_config("blip_2_vision_model"),
        qformer_config=QFORMER,
        text_config=_flan_t5(tokenizer),
        num_query_tokens=QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    return config, processor


def instructblip() -> tuple[InstructBlipConfig, InstructBlipProcessor]:
    tokenizer, qformer_tokenizer = vocabulary.t5(), vocabulary.bert()
    processor = InstructBlipProcessor(
        BlipImageProcessor(size=SQUARE), tokenizer, qformer_tokenizer, num_query_tokens=QUERIES
    )
    config = InstructBlipConfig(
        vision_config=vision_config("instructblip_vision_model"),
        qformer_config={**QFORMER, "vocab_size": len(qformer_tokenizer)},
        text_config=_flan_t5(tokenizer),
        num_query_tokens=QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    return config, processor
