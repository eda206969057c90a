"""Classify plans as correct or wrong (sec. 4.2.2).

The classifier is a BERT-type encoder that compares a plan with a gold plan.
"""

import math
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
from lmms_egoplan.storage import split_dir
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import quoted

if TYPE_CHECKING:
    from transformers import (
        BatchEncoding,
        PretrainedConfig,
        PreTrainedModel,
        PreTrainedTokenizerBase,
    )


BLEURT_VARIABLE = "LMMS_EGOPLAN_BLEURT"
Positives = Literal["mixed", "gold-first"]
Shuffled = Literal["activity", "instance"]

_BATCH = 32
# [CLS], and [SEP] after each of the two texts.
_SPECIAL_TOKENS = 3
_CLASS = "PlanPairModel"
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_ADVICE = "create one with `lmms-egoplan train actplan-bleurt`"
# Every summary of plans without a classifier says this.
NO_CLASSIFIER = (
    f"off, {BLEURT_VARIABLE} is empty or not set, so no plan is called correct or wrong; {_ADVICE}"
)
_POSITIVES = {
    "mixed": "two correct plans in any order",
    "gold-first": "a gold plan first, then another correct plan",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The classifier's verdict on a plan.

    correct: True if the probability is above 0.5.
    probability: Probability that the plan is correct, in [0, 1].
    truncated: True if the classifier saw only part of the two plans.
    """

    correct: bool
    probability: float
    truncated: bool


class PlanClassifier:
    """A trained classifier, on the GPU if one is available."""

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
        self._model = model.to(default_device()).eval()
        self._tokenizer = tokenizer

    @property
    def name(self) -> str:
        """Name of the encoder that was finetuned, with its size.

        Only BLEURT's own checkpoints are BLEURT.
        """
        config = self._model.config
        encoder = getattr(config, "encoder", "unnamed")
        return f"{encoder} ({config.num_hidden_layers} layers of {config.hidden_size})"

    @property
    def pairs(self) -> str:
        """Description of the training pairs."""
        config = self._model.config
        return (
            f"positive pairs: {_POSITIVES[config.positives]}; shuffled gold plans: of the "
            f"same {config.shuffled}"
        )

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Classify each candidate as correct or wrong, given a gold plan of the same instance.

        Args:
            pairs: Gold plan and candidate as texts; steps may be separated by blanks or line
                breaks.

        Returns:
            The verdicts in the order of the pairs.

        Raises:
            LmmsEgoplanError: The model's outputs are not numbers.
        """
        import torch

        max_length = self._model.config.max_pair_length
        encoded = [
            encode_pair(self._tokenizer, max_length, joined(gold), joined(candidate))
            for gold, candidate in pairs
        ]
        # Sort by length, so that batches need little padding.
        lengths = [len(tokens["input_ids"]) for tokens, _ in encoded]
        order = sorted(range(len(encoded)), key=lambda index: lengths[index], reverse=True)
        batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        probabilities = [0.0] * len(encoded)
        with torch.inference_mode():
            for batch in track(batches, "Classifying plans"):
                tokens = [encoded[index][0] for index in batch]
                inputs = self._tokenizer.pad(tokens, return_tensors="pt", verbose=False)
                for index, probability in zip(batch, self._probabilities(inputs), strict=True):
                    probabilities[index] = probability
        if any(map(math.isnan, probabilities)):
            raise LmmsEgoplanError(
                "the classifier returns NaN: its weights are damaged; train it again"
            )
        return [
            Verdict(probability > 0.5, probability, is_truncated)
            for probability, (_, is_truncated) in zip(probabilities, encoded, strict=True)
        ]

    def _probabilities(self, inputs: "BatchEncoding") -> list[float]:
        """Return the probability of each pair that its candidate is correct."""
        import torch

        try:
            logits = self._model(**inputs.to(self._model.device)).logits
        except torch.OutOfMemoryError:
            logger.warning(
                "not enough GPU memory for the classifier of plans; continuing on the CPU"
            )
            self._model.to("cpu")
            logits = self._model(**inputs.to("cpu")).logits
        return logits.float().softmax(-1)[:, 1].tolist()


def classifier_path(setting: str | None = None) -> str | None:
    """Return the classifier's absolute folder.

    Returns:
        The first of these that is set or exists: LMMS_EGOPLAN_BLEURT, `setting`, a classifier in
        `default_folder`. None without any, or if the variable is set to "".
    """
    path = os.environ.get(BLEURT_VARIABLE)
    if path is None:
        path = setting
        trained = default_folder()
        if not path and (trained / "scores.json").is_file():
            path = str(trained)
    return str(Path(path).resolve()) if path else None


def default_folder() -> Path:
    """Return the folder in which ``train actplan-bleurt`` writes by default."""
    return split_dir("actplan", "classifier")


def load_classifier(folder: str | Path) -> PlanClassifier:
    """Load a classifier written by ``lmms-egoplan train actplan-bleurt``; once per process.

    Raises:
        LmmsEgoplanError: The folder contains no classifier, or a damaged one.
    """
    path = Path(folder).resolve()
    weights = path / "model.safetensors"
    return _load(path, file_version(weights.stat()) if weights.is_file() else "")


@cache
def _load(path: Path, _version: str) -> PlanClassifier:
    return PlanClassifier(*load_model(path))


def load_model(folder: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Load a trained model with its tokenizer.

    Its config has ``max_pair_length`` (maximum number of tokens of a pair), and ``positives`` and
    ``shuffled`` as in `Recipe`.

    Raises:
        LmmsEgoplanError: The folder contains no model, or a damaged one.
    """
    from transformers import AutoConfig, AutoTokenizer

    if not folder.is_dir():
        raise LmmsEgoplanError(
            f"{folder}: no such folder; expected a trained classifier; {_ADVICE}"
        )
    missing_files = [name for name in _FILES if not (folder / name).is_file()]
    if missing_files:
        raise LmmsEgoplanError(
            f"{folder}: not a trained classifier: {', '.join(missing_files)} missing; {_ADVICE}"
        )
    try:
        config = AutoConfig.from_pretrained(folder)
        _check_config(folder, config)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model, missing_weights = load_weights(folder, config)
    except LmmsEgoplanError:
        raise
    except Exception as error:  # the loaders raise many types of errors
        raise LmmsEgoplanError(
            f"{folder}: the classifier is damaged: {error}; {_ADVICE}"
        ) from error
    if missing_weights or len(tokenizer) > config.vocab_size:
        raise LmmsEgoplanError(
            f"{folder}: the classifier is damaged: weights or tokenizer are incomplete; {_ADVICE}"
        )
    return model.eval(), tokenizer


def _check_config(folder: Path, config: "PretrainedConfig") -> None:
    """Check that a config is that of a classifier, with the settings of its training.

    Raises:
        LmmsEgoplanError: It is the config of another model, or a setting is unknown.
    """
    has_length = isinstance(getattr(config, "max_pair_length", None), int)
    if config.architectures != [_CLASS] or not has_length:
        raise LmmsEgoplanError(
            f"{folder}: contains {', '.join(config.architectures or ['another model'])}, not "
            f"a plan classifier; {_ADVICE}"
        )
    for name, choices in (("positives", get_args(Positives)), ("shuffled", get_args(Shuffled))):
        stored = getattr(config, name, None)
        if stored not in choices:
            raise LmmsEgoplanError(
                f"{folder / 'config.json'}: {name}: expected {' or '.join(choices)}, found "
                f"{quoted(stored)}; {_ADVICE}"
            )


def load_weights(
    source: str | Path, config: "PretrainedConfig"
) -> "tuple[PreTrainedModel, set[str]]":
    """Load the network with a checkpoint's weights.

    Returns:
        The network, and the names of its weights that the checkpoint does not have.
    """
    import torch

    model, report = _model_class().from_pretrained(
        source, config=config, dtype=torch.float32, output_loading_info=True
    )
    return model, set(report["missing_keys"])


def joined(plan: str) -> str:
    """Return a plan as the classifier reads it, with steps joined by one blank."""
    return " ".join(plan.split())


def encode_pair(
    tokenizer: "PreTrainedTokenizerBase", max_length: int, gold: str, candidate: str
) -> tuple[dict[str, list[int]], bool]:
    """Encode a pair for ``tokenizer.pad``.

    Tokens beyond `max_length` are cut from the end of the longer text first. The result equals the
    tokenizer's ``longest_first`` truncation. For two long texts, the tokenizer would need memory
    proportional to the product of the numbers of removed tokens.

    Returns:
        ``input_ids`` with special tokens and ``token_type_ids`` (1 for the second text); and True
        if tokens were cut.
    """
    texts = [clean_text(gold), clean_text(candidate)]
    first, second = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    budget = max_length - _SPECIAL_TOKENS
    share = budget // 2
    if len(first) > len(second):
        share += budget % 2
    first_part = first[: max(share, budget - len(second))]
    second_part = second[: budget - len(first_part)]
    cls = tokenizer.cls_token_id
    sep = tokenizer.sep_token_id
    tokens = {
        "input_ids": [cls, *first_part, sep, *second_part, sep],
        "token_type_ids": [0] * (len(first_part) + 2) + [1] * (len(second_part) + 1),
    }
    return tokens, len(first) + len(second) > budget


@cache
def _model_class() -> type[Any]:
    import torch
    from transformers import BertConfig, BertModel, BertPreTrainedModel
    from transformers.modeling_outputs import SequenceClassifierOutput

    class PlanPairModel(BertPreTrainedModel):
        """Dropout and a linear layer on the last hidden vector of ``[CLS]``.

        Class 1 means a correct plan.
        """

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
            """Compute logits, [pairs, 2], from three inputs of shape [pairs, tokens].

            Labels have shape [pairs].
            """
            hidden = self.bert(
                input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            )
            logits = self.plan_head(self.plan_dropout(hidden.last_hidden_state[:, 0]))
            loss = None
            if labels is not None:
                loss = torch.nn.functional.cross_entropy(logits, labels)
            return SequenceClassifierOutput(loss=loss, logits=logits)

    return PlanPairModel
