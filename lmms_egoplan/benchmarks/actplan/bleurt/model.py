"""The classifier's network (sec. 4.2.2, eqs. 1 and 2): a new one on an encoder, and a stored one; what it reads."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from lmms_egoplan.benchmarks.actplan.bleurt.recipe import Positives, Shuffled
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import shown

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

# Sec. 4.2.2's plans are written with these: each is one token.
ACTION_TOKENS = ("switch-on", "switch-off", "place_inside", "place_on_top", "walk_to")

_MARKS = 3
_CLASS = "PlanPairModel"
_HEAD = {"plan_head.weight", "plan_head.bias"}
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_HOW = "`lmms-egoplan train bleurt` makes one"


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
        model, lacking = _load_weights(encoder, config)
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


def load_model(folder: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """A trained model with its tokenizer.

    Its config has ``max_pair_length``, the tokens of a pair, and ``positives`` and ``shuffled`` as in `Recipe`.

    Raises:
        LmmsEgoplanError: the folder has none, or a damaged one.
    """
    from transformers import AutoConfig, AutoTokenizer

    if not folder.is_dir():
        raise LmmsEgoplanError(f"{folder}: no folder with a trained classifier; {_HOW}")
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise LmmsEgoplanError(f"{folder}: no trained classifier: it lacks {', '.join(missing)}; {_HOW}")
    try:
        config = AutoConfig.from_pretrained(folder)
        length = getattr(config, "max_pair_length", None)
        if config.architectures != [_CLASS] or not isinstance(length, int):
            raise LmmsEgoplanError(
                f"{folder}: holds {', '.join(config.architectures or ['another model'])}, no plan classifier; {_HOW}"
            )
        for name, known in (("positives", get_args(Positives)), ("shuffled", get_args(Shuffled))):
            if (stored := getattr(config, name, None)) not in known:
                raise LmmsEgoplanError(
                    f"{folder / 'config.json'}: {name}: expected {' or '.join(known)}, found {shown(stored)}; {_HOW}"
                )
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model, lacking = _load_weights(folder, config)
    except LmmsEgoplanError:
        raise
    except Exception as error:  # from the loaders of many file formats
        raise LmmsEgoplanError(f"{folder}: the classifier is damaged: {error}; {_HOW}") from error
    if lacking or len(tokenizer) > config.vocab_size:
        raise LmmsEgoplanError(f"{folder}: the classifier is damaged: weights and tokenizer are not complete; {_HOW}")
    return model.eval(), tokenizer


def _load_weights(source: str | Path, config: "PretrainedConfig") -> "tuple[PreTrainedModel, set[str]]":
    """The network with a checkpoint's weights, and the names of those that it lacks."""
    import torch

    model, report = _model_class().from_pretrained(source, config=config, dtype=torch.float32, output_loading_info=True)
    return model, set(report["missing_keys"])


def encode_pair(
    tokenizer: "PreTrainedTokenizerBase", max_length: int, gold: str, candidate: str
) -> tuple[dict[str, list[int]], bool]:
    """Encode a pair for ``tokenizer.pad``; tokens beyond `max_length` are taken from the end of the longer text first.

    The same as the tokenizer's own ``longest_first`` truncation, which for two long texts keeps the product of all
    that it cuts off in memory.

    Returns:
        Token ids with marks and whether each is of the second part; and whether some are left out.
    """
    first, second = tokenizer([clean_text(gold), clean_text(candidate)], add_special_tokens=False, verbose=False)[
        "input_ids"
    ]
    room = max_length - _MARKS
    share = room // 2 + (room % 2 if len(first) > len(second) else 0)
    kept_first = first[: max(share, room - len(second))]
    kept_second = second[: room - len(kept_first)]
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    tokens = {
        "input_ids": [cls, *kept_first, sep, *kept_second, sep],
        "token_type_ids": [0] * (len(kept_first) + 2) + [1] * (len(kept_second) + 1),
    }
    return tokens, len(first) + len(second) > room


def _digest(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> str:
    digest = hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode())
    for name, weights in sorted(model.bert.state_dict().items()):
        digest.update(name.encode() + weights.numpy().tobytes())
    return digest.hexdigest()


@cache
def _model_class() -> type[Any]:
    import torch
    from transformers import BertConfig, BertModel, BertPreTrainedModel
    from transformers.modeling_outputs import SequenceClassifierOutput

    class PlanPairModel(BertPreTrainedModel):
        """Dropout and a linear layer on the last hidden vector of ``[CLS]``; output 1 stands for a correct plan."""

        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            self.bert = BertModel(config, add_pooling_layer=False)
            self.plan_dropout = torch.nn.Dropout(0.1)
            self.plan_head = torch.nn.Linear(config.hidden_size, 2)
            self.post_init()

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            token_type_ids: torch.Tensor,
            labels: torch.Tensor | None = None,
        ) -> SequenceClassifierOutput:
            """Args: three of shape [pairs, tokens], labels of shape [pairs]; logits are of shape [pairs, 2]."""
            hidden = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
            logits = self.plan_head(self.plan_dropout(hidden.last_hidden_state[:, 0]))
            loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
            return SequenceClassifierOutput(loss=loss, logits=logits)

    return PlanPairModel
