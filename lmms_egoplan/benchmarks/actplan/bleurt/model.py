"""The classifier's network (sec. 4.2.2, eqs. 1 and 2), as stored in a folder, and what it reads."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import shown

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

Positives = Literal["mixed", "gold-first"]
Shuffled = Literal["activity", "instance"]

_MARKS = 3
_CLASS = "PlanPairModel"
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_HOW = "`lmms-egoplan train actplan-bleurt` makes one"


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
        model, lacking = load_weights(folder, config)
    except LmmsEgoplanError:
        raise
    except Exception as error:  # from the loaders of many file formats
        raise LmmsEgoplanError(f"{folder}: the classifier is damaged: {error}; {_HOW}") from error
    if lacking or len(tokenizer) > config.vocab_size:
        raise LmmsEgoplanError(f"{folder}: the classifier is damaged: weights and tokenizer are not complete; {_HOW}")
    return model.eval(), tokenizer


def load_weights(source: str | Path, config: "PretrainedConfig") -> "tuple[PreTrainedModel, set[str]]":
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
