"""Write a toy LLaVA-1.5 and a toy sentence encoder with random weights, in their libraries' own
formats.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from lmms_egoplan.paths import module_yaml

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

_PARTS = module_yaml(__file__)


def write_checkpoint(folder: Path) -> None:
    """Write a checkpoint that ``AutoModelForImageTextToText`` and ``AutoProcessor`` load without a
    network.

    The model has about 190,000 float32 parameters, the same every time. It consists of a CLIP
    vision tower and a Llama with two layers each, and has 16 tokens per image and 2,048 positions.
    """
    transformers.utils.logging.disable_progress_bar()
    vision = _PARTS["vision_config"]
    side = vision["image_size"]
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )
    processor = llava_processor(images, train_tokenizer(), vision["patch_size"])
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(_SEED)
        model = llava(processor, side, {})
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
        chat_template=_PARTS["chat_template"],
    )


def llava(
    processor: transformers.LlavaProcessor, image_side: int, vision: Mapping[str, int]
) -> transformers.LlavaForConditionalGeneration:
    """Return a LLaVA with random weights for square images. Its Llama has two layers of 64 units.

    Args:
        vision: settings of the CLIP vision tower that differ from the demo's, such as
            ``num_hidden_layers``.
    """
    tokenizer, patch = processor.tokenizer, processor.patch_size
    tokens = {
        name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")
    }
    config = transformers.LlavaConfig(
        vision_config={
            **_PARTS["vision_config"],
            "image_size": image_side,
            "patch_size": patch,
            **vision,
        },
        text_config={**_PARTS["text_config"], "vocab_size": len(tokenizer), **tokens},
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
    tokenizer.train_from_iterator(texts or _PARTS["texts"].splitlines(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=_PARTS["text_config"]["max_position_embeddings"],
        extra_special_tokens={"image_token": "<image>"},
    )


def write_encoder(folder: Path) -> None:
    """Write an encoder that ``SentenceTransformer`` loads without a network.

    The encoder is the same every time.

    It averages one random vector per token, which makes texts with common tokens similar. The files
    are those of a saved ``StaticEmbedding``. This function does not import sentence-transformers,
    since that takes seconds.
    """
    tokenizer = train_tokenizer().backend_tokenizer
    weights = torch.randn(
        tokenizer.get_vocab_size(), _DIMENSION, generator=torch.Generator().manual_seed(_SEED)
    )
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"embedding.weight": weights}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": _MODULE}])
    )
