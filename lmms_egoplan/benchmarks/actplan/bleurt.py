"""The classifier of correct plans (sec. 4.2.2): a BERT-type encoder that compares a plan with a gold plan."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from loguru import logger

from lmms_egoplan.encoder import default_device
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version
from lmms_egoplan.progress import track
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import shown

if TYPE_CHECKING:
    from transformers import BatchEncoding, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

BLEURT_VARIABLE = "LMMS_EGOPLAN_BLEURT"
Positives = Literal["mixed", "gold-first"]
Shuffled = Literal["activity", "instance"]

_BATCH = 32
# Special tokens of a pair.
_MARKS = 3
_CLASS = "PlanPairModel"
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_HOW = "`lmms-egoplan train actplan-bleurt` makes one"
_POSITIVES = {"mixed": "two correct plans in any order", "gold-first": "a gold plan first, then another correct plan"}


@dataclass(frozen=True)
class Verdict:
    """The classifier's verdict on a plan.

    probability: Probability of being correct, in [0, 1]; a plan is correct above 0.5.
    truncated: Whether the classifier saw only a part of the two plans.
    """

    correct: bool
    probability: float
    truncated: bool


class PlanClassifier:
    """A trained model, on the GPU if there is one."""

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
        self._model = model.to(default_device()).eval()
        self._tokenizer = tokenizer

    @property
    def pairs(self) -> str:
        """The kinds of pairs that it was trained on, in words."""
        config = self._model.config
        return f"positive pairs: {_POSITIVES[config.positives]}; shuffled gold plans: of the same {config.shuffled}"

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge whether each candidate is correct, given a gold plan of the same instance.

        Args:
            pairs: Gold plan and candidate, as texts; steps may be separated by blanks or line breaks.

        Returns:
            The verdicts in the order of the pairs.

        Raises:
            LmmsEgoplanError: The model's outputs are not numbers.
        """
        import torch

        encoded = [
            encode_pair(self._tokenizer, self._model.config.max_pair_length, joined(gold), joined(candidate))
            for gold, candidate in pairs
        ]
        order = sorted(range(len(encoded)), key=lambda index: len(encoded[index][0]["input_ids"]), reverse=True)
        batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        probabilities = [0.0] * len(encoded)
        with torch.inference_mode():
            for batch in track(batches, "Classifying plans"):
                tokens = [encoded[index][0] for index in batch]
                inputs = self._tokenizer.pad(tokens, return_tensors="pt", verbose=False)
                for index, probability in zip(batch, self._probabilities(inputs), strict=True):
                    probabilities[index] = probability
        if any(probability != probability for probability in probabilities):
            raise LmmsEgoplanError("the classifier gives no numbers (NaN): its weights are damaged; train it again")
        return [
            Verdict(probability > 0.5, probability, is_truncated)
            for probability, (_, is_truncated) in zip(probabilities, encoded, strict=True)
        ]

    def _probabilities(self, inputs: "BatchEncoding") -> list[float]:
        import torch

        try:
            logits = self._model(**inputs.to(self._model.device)).logits
        except torch.OutOfMemoryError:
            logger.warning("no GPU memory is left for the classifier of plans: it goes on on the CPU")
            self._model.to("cpu")
            logits = self._model(**inputs.to("cpu")).logits
        return logits.float().softmax(-1)[:, 1].tolist()


def classifier_path(setting: str | None = None) -> str | None:
    """Return the classifier's absolute folder: LMMS_EGOPLAN_BLEURT if set, else `setting`; None without both."""
    path = os.environ.get(BLEURT_VARIABLE) or setting
    return str(Path(path).resolve()) if path else None


def load_classifier(folder: str | Path) -> PlanClassifier:
    """Load a classifier that ``lmms-egoplan train actplan-bleurt`` has written; once per process.

    Raises:
        LmmsEgoplanError: The folder has no classifier, or a damaged one.
    """
    path = Path(folder).resolve()
    weights = path / "model.safetensors"
    return _load(path, file_version(weights.stat()) if weights.is_file() else "")


@cache
def _load(path: Path, _version: str) -> PlanClassifier:
    return PlanClassifier(*load_model(path))


def load_model(folder: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Load a trained model with its tokenizer.

    Its config has ``max_pair_length``, the tokens of a pair, and ``positives`` and ``shuffled`` as in `Recipe`.

    Raises:
        LmmsEgoplanError: The folder has no model, or a damaged one.
    """
    from transformers import AutoConfig, AutoTokenizer

    if not folder.is_dir():
        raise LmmsEgoplanError(f"{folder}: no folder with a trained classifier; {_HOW}")
    if missing := [name for name in _FILES if not (folder / name).is_file()]:
        raise LmmsEgoplanError(f"{folder}: no trained classifier: it lacks {', '.join(missing)}; {_HOW}")
    try:
        config = AutoConfig.from_pretrained(folder)
        if config.architectures != [_CLASS] or not isinstance(getattr(config, "max_pair_length", None), int):
            raise LmmsEgoplanError(
                f"{folder}: holds {', '.join(config.architectures or ['another model'])}, no plan classifier; {_HOW}"
            )
        for name, known in (("positives", get_args(Positives)), ("shuffled", get_args(Shuffled))):
            if (stored := getattr(config, name, None)) not in known:
                raise LmmsEgoplanError(
                    f"{folder / 'config.json'}: {name}: expected {' or '.join(known)}, found {shown(stored)}; {_HOW}"
                )
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model, missing_weights = load_weights(folder, config)
    except LmmsEgoplanError:
        raise
    except Exception as error:  # from the loaders of many file formats
        raise LmmsEgoplanError(f"{folder}: the classifier is damaged: {error}; {_HOW}") from error
    if missing_weights or len(tokenizer) > config.vocab_size:
        raise LmmsEgoplanError(f"{folder}: the classifier is damaged: weights and tokenizer are not complete; {_HOW}")
    return model.eval(), tokenizer


def load_weights(source: str | Path, config: "PretrainedConfig") -> "tuple[PreTrainedModel, set[str]]":
    """Load the network with a checkpoint's weights; also return the names of missing weights."""
    import torch

    model, report = _model_class().from_pretrained(source, config=config, dtype=torch.float32, output_loading_info=True)
    return model, set(report["missing_keys"])


def joined(plan: str) -> str:
    """Return a plan in the classifier's form: its steps joined by one blank."""
    return " ".join(plan.split())


def encode_pair(
    tokenizer: "PreTrainedTokenizerBase", max_length: int, gold: str, candidate: str
) -> tuple[dict[str, list[int]], bool]:
    """Encode a pair for ``tokenizer.pad``; tokens beyond `max_length` are cut from the end of the longer text first.

    The same as the tokenizer's own ``longest_first`` truncation, which for two long texts keeps the product of all
    that it cuts off in memory.

    Returns:
        Token ids with marks and whether each is of the second part; and whether some are cut off.
    """
    texts = [clean_text(gold), clean_text(candidate)]
    first, second = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    room = max_length - _MARKS
    share = room // 2 + (room % 2 if len(first) > len(second) else 0)
    first_part = first[: max(share, room - len(second))]
    second_part = second[: room - len(first_part)]
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    tokens = {
        "input_ids": [cls, *first_part, sep, *second_part, sep],
        "token_type_ids": [0] * (len(first_part) + 2) + [1] * (len(second_part) + 1),
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
