"""LLaVA around text models whose likelihoods are easily computed wrong, and a faulty model with
remote code.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForImageTextToText,
    Gemma3ImageProcessor,
    Gemma3Processor,
    LlavaConfig,
    PreTrainedModel,
    ProcessorMixin,
    T5Gemma2Config,
)

from . import vocabulary
from .llava import SQUARE, llava, text_config, vision_config

_GAIN = 1.25
_LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 8,
    "long_factor": [1 + 0.9 * index for index in range(8)],
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 128,
}
SETTINGS: dict[str, dict[str, Any]] = {
    # linear attention, whose state a cached pass of several tokens loses
    "minimax": {
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "block_size": 8,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "head_dim": 16,
    },
    "jamba": {
        "num_hidden_layers": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "mamba_d_state": 8,
    },
    # recurrent layers with a step of their own for one token
    "zamba2": {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "num_mem_blocks": 1,
        "mamba_d_state": 8,
        "n_mamba_heads": 8,
        "mamba_ngroups": 1,
        "mamba_headdim": 16,
        "chunk_size": 16,
    },
    # of more than 64 keys, each token sees 64
    "deepseek_v32": {
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 16,
        "head_dim": 8,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
        "index_topk": 64,
        "index_head_dim": 16,
        "index_n_heads": 2,
    },
    # mixtures of experts
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2_moe": {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 32},
    "qwen3_moe": {
        "num_experts": 32,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 32,
        "head_dim": 16,
    },
    "olmoe": {"num_experts": 16, "num_experts_per_tok": 4},
    # a token's keys are chosen from the whole sequence, including later ones
    "doge": {"keep_window_size": 16},
    # other rotary frequencies beyond 128 tokens
    "phi3": {"rope_scaling": _LONGROPE, "original_max_position_embeddings": 128},
    # rotary frequencies that grow with each token beyond 128
    "llama": {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}},
}

EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe")


@cache
def build_around(model_type: str) -> tuple[PreTrainedModel, ProcessorMixin]:
    """A LLaVA with this text model (float32, evaluation mode) and its processor; as `zoo.build`."""
    config, processor = llava()
    settings = {
        "max_position_embeddings": 128 if model_type == "llama" else 2048,
        **SETTINGS[model_type],
    }
    config = LlavaConfig(
        vision_config=vision_config("clip_vision_model"),
        text_config=text_config(processor.tokenizer, model_type, **settings),
        image_token_index=processor.image_token_id,
        image_seq_length=16,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            if ".experts." in name and model_type in EXPERTS:  # shape (experts, outputs, inputs)
                parameter.normal_(0, _GAIN / parameter.shape[-1] ** 0.5)
            elif parameter.ndim > 1:
                parameter.normal_(0, _GAIN / parameter.shape[1:].numel() ** 0.5)
    # the check of lengths goes by the configuration, the frequencies by the first one
    if model_type == "llama":
        model.config.text_config.max_position_embeddings = 2048
    return model.eval(), processor


@cache
def build_t5gemma2() -> tuple[PreTrainedModel, ProcessorMixin]:
    """An encoder-decoder whose answers begin with <bos>, which its tokenizer puts before every
    text; as `zoo.build`.
    """
    image = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    tokenizer = vocabulary.gemma([*image.values()], **image)
    processor = Gemma3Processor(Gemma3ImageProcessor(size=SQUARE), tokenizer, image_seq_length=4)
    layers = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
    text = text_config(tokenizer, "t5gemma2_text", head_dim=16, query_pre_attn_scalar=16, **layers)
    text.pop("model_type")
    vision = vision_config("siglip_vision_model", vision_use_head=False)
    indices = {"boi_token_index": tokenizer.boi_token_id, "eoi_token_index": tokenizer.eoi_token_id}
    encoder = {"text_config": text, "vision_config": vision, "mm_tokens_per_image": 4, **indices}
    config = T5Gemma2Config(
        encoder=encoder, decoder=text, image_token_index=tokenizer.image_token_id
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, _GAIN / parameter.shape[1:].numel() ** 0.5)
    return model.eval(), processor


_FAULTY = '''
from transformers import LlavaForConditionalGeneration


class FaultyLlava(LlavaForConditionalGeneration):
    """Correct, except for passes on the cache of a context with the token `config.faulty_token`."""

    def forward(self, input_ids=None, **kwargs):
        cache = kwargs.get("cache", kwargs.get("past_key_values"))  \
# its name depends on the version of transformers
        on_cache = cache is not None and cache.get_seq_length() > 0
        if not on_cache:
            self.is_faulty = bool((input_ids == self.config.faulty_token).any())
        output = super().forward(input_ids=input_ids, **kwargs)
        if on_cache and self.is_faulty:
            output.logits = output.logits * 0.7
        return output
'''


def save_faulty(folder: Path, character: str) -> Path:
    """Write a checkpoint with remote code to `folder`: cached passes after a context with this
    character are wrong.
    """
    from . import build

    model, processor = build("llava")
    model.save_pretrained(folder)
    # by its own names
    save_file(dict(model.state_dict()), folder / "model.safetensors", metadata={"format": "pt"})
    processor.save_pretrained(folder)
    (folder / "modeling_faulty.py").write_text(_FAULTY)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "architectures": ["FaultyLlava"],
        "auto_map": {"AutoModelForImageTextToText": "modeling_faulty.FaultyLlava"},
        "faulty_token": processor.tokenizer.convert_tokens_to_ids(character),
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder
