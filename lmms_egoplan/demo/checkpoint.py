"""Write a tiny LLaVA-1.5 and a tiny sentence encoder with random weights.

The files have the formats of transformers and sentence-transformers.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

_SEED = 0
# Standard deviation of a unit's output for normalised input. Values above about 1 make likelihoods
# depend on images and words. With the default initialisation of transformers, all candidates would
# be equally likely.
_GAIN = 1.25
_VOCABULARY = 512
# Random weights rarely end a reply. After this many tokens, the end becomes more likely by this
# factor per token.
_ENDING = (12, 1.2)
_DIMENSION = 64
_MODULE = "sentence_transformers.sentence_transformer.modules.static_embedding.StaticEmbedding"

_IMAGE_SIDE = 56
_PATCH_SIZE = 14
_VISION_CONFIG = {
    "model_type": "clip_vision_model",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": _IMAGE_SIDE,
    "patch_size": _PATCH_SIZE,
}
_POSITIONS = 2048  # The 33 images of the layout with clips take 528 of them.
_TEXT_CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": _POSITIONS,
}
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
# Training texts of the tokenizer.
_TEXTS = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "which action comes",
    "next? I open the cupboard, take a bowl and a spoon, put them on the counter and close the "
    "cupboard again.",
    "Then I pour milk into the bowl, stir it with the spoon and turn on the hob to warm the pan. "
    "The knife lies on",
    "the board, beside the tomato that I have to cut into slices before I put them into the salad.",
    "To plant a seed, fill the pot with soil, make a hole, drop the seed, cover it, and water it "
    "from the can.",
    "To paint a wall, open the can, dip the brush into the paint, and move it up and down; put "
    "down the brush.",
    "Wash the cup under the tap, turn off the tap, dry the cup with a towel, and wipe the counter "
    "with a cloth.",
    "Reply with nothing but the letter of the right option: A, B, C or D. The answer is B, in "
    "order to finish.",
)


def write_checkpoint(folder: Path) -> None:
    """Write a checkpoint for ``AutoModelForImageTextToText`` and ``AutoProcessor``.

    They load it without a network. The model has about 190,000 float32 parameters, the same every
    time. It consists of a CLIP vision tower and a Llama with two layers each, and has 16 tokens per
    image and 2,048 positions.
    """
    transformers.utils.logging.disable_progress_bar()
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": _IMAGE_SIDE},
        crop_size={"height": _IMAGE_SIDE, "width": _IMAGE_SIDE},
    )
    processor = llava_processor(images, train_tokenizer(), _PATCH_SIZE)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(_SEED)
        model = llava(processor, _IMAGE_SIDE, {})
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, _GAIN / parameter[0].numel() ** 0.5)
    model.generation_config.exponential_decay_length_penalty = _ENDING
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def llava_processor(
    images: transformers.CLIPImageProcessor,
    tokenizer: transformers.PreTrainedTokenizerFast,
    patch_size: int,
) -> transformers.LlavaProcessor:
    """Return a processor with LLaVA-1.5's chat template."""
    return transformers.LlavaProcessor(
        images,
        tokenizer,
        patch_size=patch_size,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_CHAT_TEMPLATE,
    )


def llava(
    processor: transformers.LlavaProcessor, image_side: int, vision: Mapping[str, int]
) -> transformers.LlavaForConditionalGeneration:
    """Return a LLaVA with random weights for square images. Its Llama has two layers of 64 units.

    Args:
        vision: settings of the CLIP vision tower that differ from the demo's, such as
            ``num_hidden_layers``.
    """
    tokenizer = processor.tokenizer
    patch = processor.patch_size
    vision_config = {**_VISION_CONFIG, "image_size": image_side, "patch_size": patch, **vision}
    text_config = {
        **_TEXT_CONFIG,
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = transformers.LlavaConfig(
        vision_config=vision_config,
        text_config=text_config,
        image_token_index=processor.image_token_id,
        image_seq_length=(image_side // patch) ** 2,
    )
    return transformers.LlavaForConditionalGeneration(config)


def train_tokenizer(
    texts: Sequence[str] = (), vocabulary: int = _VOCABULARY
) -> transformers.PreTrainedTokenizerFast:
    """Train a byte-level BPE that puts ``<s>`` before every text, as LLaVA-1.5's tokenizer does.

    Args:
        texts: training texts. Default: the demo's.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "</s>", "<pad>", "<image>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts or _TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=_POSITIONS,
        extra_special_tokens={"image_token": "<image>"},
    )


def write_encoder(folder: Path) -> None:
    """Write an encoder that ``SentenceTransformer`` loads without a network.

    The encoder is the same every time. It averages one random vector per token, which makes texts
    with common tokens similar. The files are those of a saved ``StaticEmbedding``. This function
    does not import sentence-transformers, since that takes seconds.
    """
    tokenizer = train_tokenizer().backend_tokenizer
    weights = torch.randn(
        tokenizer.get_vocab_size(), _DIMENSION, generator=torch.Generator().manual_seed(_SEED)
    )
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"embedding.weight": weights}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    modules = [{"idx": 0, "name": "0", "path": "", "type": _MODULE}]
    (folder / "modules.json").write_text(json.dumps(modules))
