"""A trained classifier, and what it says of plans."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from lmms_egoplan.benchmarks.actplan.bleurt.model import encode_pair, load_model
from lmms_egoplan.benchmarks.actplan.bleurt.pairs import joined
from lmms_egoplan.encoder import default_device
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version
from lmms_egoplan.progress import track

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

BLEURT_VARIABLE = "LMMS_EGOPLAN_BLEURT"

_BATCH = 32


@dataclass(frozen=True)
class Verdict:
    """What the classifier says of a plan.

    probability: of being correct, in [0, 1]; a plan is correct above 0.5.
    truncated: whether the classifier saw only a part of the two plans.
    """

    correct: bool
    probability: float
    truncated: bool


class PlanClassifier:
    """A trained model, on the GPU where there is one."""

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
        self._model = model.to(default_device()).eval()
        self._tokenizer = tokenizer

    @property
    def pairs(self) -> str:
        """How the pairs that it was trained on were made, in words."""
        return _pairs_text(self._model.config.positives, self._model.config.shuffled)

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Say of each candidate whether it is correct, given a gold plan of the same instance.

        Args:
            pairs: gold plan and candidate, as texts; steps may be separated by blanks or line breaks.

        Returns:
            The verdicts in the order of the pairs.

        Raises:
            LmmsEgoplanError: the model gives something other than numbers.
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
    """The classifier's absolute folder: LMMS_EGOPLAN_BLEURT, where set, wins over `setting`; None without both."""
    path = os.environ.get(BLEURT_VARIABLE) or setting
    return str(Path(path).resolve()) if path else None


def load_classifier(folder: str | Path) -> PlanClassifier:
    """Load what ``lmms-egoplan train actplan-bleurt`` has written; once per process.

    Raises:
        LmmsEgoplanError: the folder has no classifier, or a damaged one.
    """
    path = Path(folder).resolve()
    weights = path / "model.safetensors"
    return _load(path, file_version(weights.stat()) if weights.is_file() else "")


def _pairs_text(positives: str, shuffled: str) -> str:
    """How training pairs were made, in words."""
    first = {"mixed": "two correct plans in any order", "gold-first": "a gold plan first, then another correct plan"}
    return f"positive pairs: {first[positives]}; shuffled gold plans: of the same {shuffled}"


@cache
def _load(path: Path, version: str) -> PlanClassifier:
    return PlanClassifier(*load_model(path))
