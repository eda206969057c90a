"""A tiny checkpoint for tests of the chat models."""

from pathlib import Path

import pytest

TEMPLATE = "{% for m in messages %}{{ m['role'] | upper }}: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n{% else %}{{ c['text'] }}{% endif %}{% endfor %} {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"


@pytest.fixture(scope="session")
def tiny_llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a LLaVA of two layers with random weights in bfloat16, with its processor and a chat template."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        CLIPImageProcessor,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    words = "USER SYSTEM ASSISTANT : what comes next ? wash take the mug open drawer and knife".split()
    vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", "<pad>", "<image>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>", additional_special_tokens=["<image>"])
    size = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
    processor = LlavaProcessor(CLIPImageProcessor(**size), fast, patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1, chat_template=TEMPLATE)
    layers = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlavaConfig(
        vision_config={"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14, **layers},
        text_config={"model_type": "llama", "vocab_size": len(vocabulary), "max_position_embeddings": 128, **layers},
        image_token_index=vocabulary["<image>"],
        image_seq_length=4,
    )
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    folder = tmp_path_factory.mktemp("checkpoint")
    model.bfloat16().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
