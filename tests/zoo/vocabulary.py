"""Tokenizers of a few hundred tokens, trained on a little text, in the real tokenizer classes.

The three kinds that the imitated checkpoints have: byte-level BPE (Qwen, Llama 3), BPE over "▁"
with byte fallback (Llama 2, Mistral, Gemma) and Unigram over "▁" without fallback (T5).
"""

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertTokenizer,
    GemmaTokenizer,
    LlamaTokenizer,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    T5Tokenizer,
)

CORPUS = """
The user asks what to do next in the kitchen. Which action should come next to make a cup of coffee?
Take the mug from the shelf, rinse the mug, put the mug on the counter and pour water into the \
kettle.
Open the fridge, take the milk, close the fridge. Cut the onion, peel the potato, wash the knife.
Considering the progress shown in the video, what action should be taken next in order to fry \
an egg?
Crack the egg into the pan, stir with the spoon, add salt and pepper, pick up the plate, wipe \
the table.
Put the pan on the hob. Turn on the hob. Turn off the tap. Sauté the onion. Open the drawer, cut \
the bread.
The assistant answers: place the bowl in the microwave, then set the timer for 2 minutes and wait.
""".strip().splitlines()
ASCII = [chr(code) for code in range(33, 127)]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def _bpe(byte_level: bool, *special: str) -> dict[str, Any]:
    """`vocab` and `merges` of a BPE model, over bytes or over "▁" and characters; it has `special`
    first.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=False)
        if byte_level
        else pre_tokenizers.Metaspace()
    )
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [*ASCII, "\n"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def qwen2(special: Sequence[str], **named: str) -> Qwen2Tokenizer:
    """Byte-level BPE as in Qwen, without BOS. `named` become attributes such as
    `tokenizer.image_token`.
    """
    tokenizer = Qwen2Tokenizer(**_bpe(True), extra_special_tokens=named)
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>", *special], special_tokens=True)
    tokenizer.eos_token = "<|im_end|>"
    return tokenizer


def llama3(special: Sequence[str], eos: str) -> PreTrainedTokenizerFast:
    """Byte-level BPE as in Llama 3: <|begin_of_text|> precedes every text."""
    bos, pad = "<|begin_of_text|>", "<|finetune_right_pad_id|>"
    pipeline = Qwen2Tokenizer(**_bpe(True)).backend_tokenizer
    pipeline.add_special_tokens([bos, pad, *special])
    pipeline.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A",
        pair=f"{bos} $A {bos} $B",
        special_tokens=[(bos, pipeline.token_to_id(bos))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pipeline, bos_token=bos, eos_token=eos, pad_token=pad
    )


def llama2(special: Sequence[str]) -> LlamaTokenizer:
    """BPE over "▁" with byte fallback as in Llama 2, Vicuna and Mistral: <s> begins every text."""
    pieces = _bpe(False, "<unk>", "<s>", "</s>", *BYTES)
    tokenizer = LlamaTokenizer(**pieces, pad_token="<pad>", add_bos_token=True)
    tokenizer.add_tokens(list(special), special_tokens=True)
    return tokenizer


def gemma(special: Sequence[str], **named: str) -> GemmaTokenizer:
    """BPE over "▁" with byte fallback as in Gemma: <bos> precedes every text, but no "▁"."""
    pieces = _bpe(False, "<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *BYTES)
    tokenizer = GemmaTokenizer(**pieces, add_bos_token=True, extra_special_tokens=named)
    tokenizer.add_tokens(list(special), special_tokens=True)
    return tokenizer


def t5() -> T5Tokenizer:
    """Unigram over "▁" as in Flan-T5: </s> after every text; most non-ASCII characters are <unk>.

    The pieces come from BPE, and longer ones are less likely: training a Unigram model is not
    deterministic.
    """
    vocab = _bpe(False, "<pad>", "</s>", "<unk>")["vocab"]
    return T5Tokenizer(
        vocab=[(piece, -5 - index / 100) for piece, index in vocab.items()], extra_ids=0
    )


def bert() -> BertTokenizer:
    """WordPiece of single characters, the tokenizer of InstructBLIP's Q-Former."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [character for character in ASCII if not character.isupper()]
    pieces = [*special, *characters, *("##" + character for character in characters)]
    return BertTokenizer(vocab={piece: index for index, piece in enumerate(pieces)})
