"""A LLaVA-1.5 of toy size with random weights, in the real classes of transformers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import (
        CLIPImageProcessor,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

_SEED = 0
# Standard deviation of a unit that reads normalised input: from about 1 on, images and words change the
# likelihoods clearly, while transformers' own initialisation makes all candidates equally likely.
_GAIN = 1.25
_PATCH = 14
_IMAGE_SIDE = 56
# The clips layout's 33 images of 16 tokens are 528 of them.
_POSITIONS = 2048
# Random weights hardly ever end a reply: from so many tokens on, the end grows more likely by this factor a token.
_ENDING = (12, 1.2)

# "USER: <image>\nWhat is this? ASSISTANT: A cup.</s>", as LLaVA-1.5 documents it.
_CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ message['role'] | upper }}: {% for item in message['content'] if item['type'] == 'image' -%}
<image>{{ '\\n' }}
{%- endfor -%}
{%- for item in message['content'] if item['type'] == 'text' -%}
{{ item['text'] }}
{%- endfor -%}
{{ eos_token if message['role'] == 'assistant' else ' ' }}
{%- endfor -%}
{{ 'ASSISTANT:' if add_generation_prompt }}"""

_TEXT = """
Considering the progress shown in the video and my current observation in the last frame, which action comes
next? I open the cupboard, take a bowl and a spoon, put them on the counter and close the cupboard again.
Then I pour milk into the bowl, stir it with the spoon and turn on the hob to warm the pan. The knife lies on
the board, beside the tomato that I have to cut into slices before I put them into the salad.
To plant a seed, fill the pot with soil, make a hole, drop the seed, cover it, and water it from the can.
To paint a wall, open the can, dip the brush into the paint, and move it up and down; put down the brush.
Wash the cup under the tap, turn off the tap, dry the cup with a towel, and wipe the counter with a cloth.
Reply with nothing but the letter of the right option: A, B, C or D. The answer is B, in order to finish.
""".strip().splitlines()


def write_checkpoint(folder: Path) -> None:
    """Write a checkpoint that ``AutoModelForImageTextToText`` and ``AutoProcessor`` load without a network.

    About 190,000 float32 parameters, the same every time: a CLIP vision tower and a Llama of two layers each,
    16 tokens per image, 2,048 positions.
    """
    import torch
    from transformers import CLIPImageProcessor
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    side = _IMAGE_SIDE
    images = CLIPImageProcessor(size={"shortest_edge": side}, crop_size={"height": side, "width": side})
    processor = llava_processor(images, train_tokenizer(), _PATCH)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(_SEED)
        model = llava(processor, side, {"hidden_size": 32, "num_hidden_layers": 2})
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, _GAIN / parameter[0].numel() ** 0.5)
    model.generation_config.exponential_decay_length_penalty = _ENDING
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def llava_processor(
    images: "CLIPImageProcessor", tokenizer: "PreTrainedTokenizerFast", patch_size: int
) -> "LlavaProcessor":
    """A processor with LLaVA-1.5's chat template."""
    from transformers import LlavaProcessor

    return LlavaProcessor(
        images,
        tokenizer,
        patch_size=patch_size,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_CHAT_TEMPLATE,
    )


def llava(processor: "LlavaProcessor", image_side: int, vision: Mapping[str, int]) -> "LlavaForConditionalGeneration":
    """A LLaVA with random weights for square images of this side; its Llama has two layers of 64 units.

    Args:
        vision: ``hidden_size`` and ``num_hidden_layers`` of the CLIP vision tower.
    """
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    tokenizer = processor.tokenizer
    config = LlavaConfig(
        vision_config={
            "model_type": "clip_vision_model",
            "intermediate_size": 2 * vision["hidden_size"],
            "num_attention_heads": 4,
            "image_size": image_side,
            "patch_size": processor.patch_size,
            **vision,
        },
        text_config={
            "model_type": "llama",
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": _POSITIONS,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        image_token_index=processor.image_token_id,
        image_seq_length=(image_side // processor.patch_size) ** 2,
    )
    return LlavaForConditionalGeneration(config)


def train_tokenizer(texts: Sequence[str] = _TEXT, vocabulary: int = 512) -> "PreTrainedTokenizerFast":
    """Byte-level BPE of these texts that puts ``<s>`` before every text, as LLaVA-1.5's tokenizer does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "</s>", "<pad>", "<image>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=_POSITIONS,
        extra_special_tokens={"image_token": "<image>"},
    )
