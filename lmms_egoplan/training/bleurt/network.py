"""A new network for the classifier (sec. 4.2.2): an encoder with an untrained head."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.actplan.bleurt import load_weights
from lmms_egoplan.errors import LmmsEgoplanError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Sec. 4.2.2's plans are written with these: each is one token.
ACTION_TOKENS = ("switch-on", "switch-off", "place_inside", "place_on_top", "walk_to")

_HEAD = {"plan_head.weight", "plan_head.bias"}


@dataclass(frozen=True)
class NewModel:
    """An encoder with an untrained head.

    max_length: tokens of a pair, as many as asked for where the encoder has positions for them.
    digest: of the encoder's weights and its tokenizer; another text for another encoder.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    max_length: int
    digest: str


def new_model(encoder: str, max_length: int, seed: int) -> NewModel:
    """Put a head on an encoder, with an embedding for each of `ACTION_TOKENS`; their weights depend on the seed.

    Args:
        encoder: name on the hub, as ``Elron/bleurt-base-128``, or folder of a BERT-type checkpoint.
        max_length: of a pair, in tokens.

    Raises:
        LmmsEgoplanError: there is no such checkpoint, or it is of another type or incomplete.
    """
    from transformers import AutoConfig, AutoTokenizer, set_seed

    try:
        config = AutoConfig.from_pretrained(encoder)
        if config.model_type != "bert":
            raise LmmsEgoplanError(f"{encoder}: expected an encoder of the type bert, found {config.model_type}")
        config.max_pair_length = min(max_length, config.max_position_embeddings)
        tokenizer = AutoTokenizer.from_pretrained(encoder)
        set_seed(seed)
        model, lacking = load_weights(encoder, config)
    except LmmsEgoplanError:
        raise
    except Exception as error:  # from the loaders of many file formats
        raise LmmsEgoplanError(
            f"{encoder}: no BERT-type checkpoint can be loaded from there: {error}\nWithout a network, download it "
            "elsewhere (`hf download NAME --local-dir DIR`) and give the folder: --encoder DIR"
        ) from error
    if lacking != _HEAD:
        what = f"lacks {', '.join(sorted(lacking - _HEAD)[:3])}" if lacking else "is a plan classifier already"
        raise LmmsEgoplanError(f"{encoder}: {what}; give a checkpoint with all weights of a BERT encoder and no more")
    digest = _digest(model, tokenizer)
    tokenizer.add_special_tokens({"extra_special_tokens": list(ACTION_TOKENS)}, replace_extra_special_tokens=False)
    if len(tokenizer) > config.vocab_size:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return NewModel(model, tokenizer, config.max_pair_length, digest)


def _digest(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> str:
    digest = hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode())
    for name, weights in sorted(model.bert.state_dict().items()):
        digest.update(name.encode() + weights.numpy().tobytes())
    return digest.hexdigest()
