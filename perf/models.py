"""Build LLaVA-1.5-, Qwen2.5-VL- and InternVL-shaped models with seeded random weights, and their
processors.
"""

from collections.abc import Callable
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForImageTextToText,
    CLIPImageProcessor,
    CLIPVisionConfig,
    GotOcr2ImageProcessor,
    InternVLConfig,
    InternVLProcessor,
    InternVLVideoProcessor,
    LlamaConfig,
    LlavaConfig,
    LlavaProcessor,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    ProcessorMixin,
    Qwen2_5_VLConfig,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

CORPUS = """
Considering the progress shown and my current observation, what action should I take next in \
order to store cereal?
Put down the cereal box, open the cupboard, wash the spoon, take a bowl of milk. USER ASSISTANT \
user assistant
""".splitlines()

LLAVA_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | upper + ': ' }}{% for item in "
    "message['content'] if item['type'] == 'image' %}{{ '<image>\n' }}{% endfor %}{% for item in "
    "message['content'] if item['type'] == 'text' %}{{ item['text'] + ' ' }}{% endfor %}{% endfor "
    "%}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
QWEN_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% for item in "
    "message['content'] %}{% if item['type'] == 'image' %}{{ "
    "'<|vision_start|><|image_pad|><|vision_end|>' }}{% elif item['type'] == 'video' %}{{ "
    "'<|vision_start|><|video_pad|><|vision_end|>' }}{% else %}{{ item['text'] }}{% endif %}{% "
    "endfor %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}"
)

INTERNVL_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% for item in "
    "message['content'] %}{% if item['type'] == 'image' %}{{ '<IMG_CONTEXT>\n' }}{% elif "
    "item['type'] == 'video' %}{{ '<video>\n' }}{% else %}{{ item['text'] }}{% endif %}{% endfor "
    "%}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}"
)


def build(
    shape: str, device: str, dtype: torch.dtype
) -> tuple[PreTrainedModel, ProcessorMixin, int]:
    """Return the model in evaluation mode, its processor, and the number of tokens per image (see
    `IMAGE_SIZE`).
    """
    config, processor, image_tokens = _SHAPES[shape]()
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = AutoModelForImageTextToText.from_config(config, dtype=dtype).eval()
    finally:
        torch.set_default_dtype(default)
    return model.to(device), processor, image_tokens


def build_small(shape: str) -> tuple[PreTrainedModel, ProcessorMixin, int]:
    """Like `build`, but with narrow layers, in float32 on the CPU."""
    config, processor, image_tokens = _SHAPES[shape]()
    for part in (config.text_config, config.vision_config):
        for name, value in _SMALL.items():
            if hasattr(part, name):
                setattr(part, name, [value] * 2 if isinstance(getattr(part, name), list) else value)
    return (
        AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval(),
        processor,
        image_tokens,
    )


def build_qwen(
    width: int, layers: int, vision_width: int, vision_depth: int
) -> tuple[PreTrainedModel, ProcessorMixin, int]:
    """Build a Qwen2.5-VL-shaped model of a custom size, with 64-dimensional heads, in float32 on
    the CPU.
    """
    config, processor, image_tokens = _qwen_7b()
    text, vision = config.text_config, config.vision_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = width, 3 * width, layers
    text.num_attention_heads = text.num_key_value_heads = width // 64
    text.layer_types = text.layer_types[:layers]
    text.vocab_size, text.max_position_embeddings = 32000, 8192
    text.rope_parameters["mrope_section"] = [8, 12, 12]
    vision.hidden_size, vision.intermediate_size, vision.depth = (
        vision_width,
        3 * vision_width,
        vision_depth,
    )
    vision.num_heads, vision.out_hidden_size = vision_width // 64, width
    vision.fullatt_block_indexes = [vision_depth - 1]
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()
    return model, processor, image_tokens


IMAGE_SIZE = {"llava-75m": 224, "llava-1.5-7b": 336, "qwen2.5-vl-7b": 448, "internvl3-8b": 448}
"""Side of a square image, in pixels."""


def _small_llava() -> tuple[PreTrainedConfig, ProcessorMixin, int]:
    """Return the configuration: 75 million parameters, 256 tokens per image."""
    text = LlamaConfig(
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=12,
        num_attention_heads=8,
        vocab_size=32000,
        max_position_embeddings=8192,
    )
    vision = CLIPVisionConfig(
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=4,
        image_size=224,
        patch_size=14,
    )
    return _llava(text, vision, image_size=224), _llava_processor(224), 256


def _llava_7b() -> tuple[PreTrainedConfig, ProcessorMixin, int]:
    text = LlamaConfig(vocab_size=32064, max_position_embeddings=8192)
    vision = CLIPVisionConfig(
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        image_size=336,
        patch_size=14,
    )
    return _llava(text, vision, image_size=336), _llava_processor(336), 576


def _llava(text: LlamaConfig, vision: CLIPVisionConfig, image_size: int) -> LlavaConfig:
    image_token = _tokenizer(["<image>"]).convert_tokens_to_ids("<image>")
    tokens = (image_size // 14) ** 2
    return LlavaConfig(
        vision_config=vision, text_config=text, image_token_id=image_token, image_seq_length=tokens
    )


def _llava_processor(image_size: int) -> LlavaProcessor:
    side = {"height": image_size, "width": image_size}
    return LlavaProcessor(
        image_processor=CLIPImageProcessor(size={"shortest_edge": image_size}, crop_size=side),
        tokenizer=_tokenizer(["<image>"]),
        patch_size=14,
        vision_feature_select_strategy="default",
        chat_template=LLAVA_TEMPLATE,
        num_additional_image_tokens=1,
    )


def _qwen_7b() -> tuple[PreTrainedConfig, ProcessorMixin, int]:
    special = [
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
    ]
    tokenizer = _tokenizer(special, image_token="<|image_pad|>", video_token="<|video_pad|>")
    config = Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
            "max_position_embeddings": 128000,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [16, 24, 24],
            },
        },
        vision_config={"hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584},
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    )
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=QWEN_TEMPLATE,
    )
    return config, processor, (448 // 28) ** 2


def _internvl_8b() -> tuple[PreTrainedConfig, ProcessorMixin, int]:
    names = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tokenizer = _tokenizer(["<|im_start|>", "<|im_end|>", *names.values()], **names)
    config = InternVLConfig(
        text_config={
            "model_type": "qwen2",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 151674,
            "max_position_embeddings": 32768,
        },
        vision_config={"image_size": [448, 448], "patch_size": [14, 14]},
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
    )
    side = {"height": 448, "width": 448}
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size=side),
        tokenizer,
        InternVLVideoProcessor(size=side),
        image_seq_length=256,
        chat_template=INTERNVL_TEMPLATE,
    )
    return config, processor, 256


_SHAPES: dict[str, Callable[[], tuple[PreTrainedConfig, ProcessorMixin, int]]] = {
    "llava-75m": _small_llava,
    "llava-1.5-7b": _llava_7b,
    "qwen2.5-vl-7b": _qwen_7b,
    "internvl3-8b": _internvl_8b,
}
_SMALL = {
    "hidden_size": 512,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_heads": 4,
    "out_hidden_size": 512,
}


def _tokenizer(special: list[str], **named: Any) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<s>", "</s>", *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        extra_special_tokens=named,
    )
