"""Plant faults in the paths on a cache, and rank questions with them."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lmms_egoplan.ranking import CandidateRanker, PathError
from lmms_egoplan.ranking import decoder as module
from lmms_egoplan.ranking.decoder import DecoderPasses, MaskKinds
from lmms_egoplan.ranking.question import is_per_token
from ranking.reference import picture, user_turn
from zoo import build
from zoo.experts import build_experts
from zoo.unusual import build_around

FAULTS = ("shifted position", "leaked candidate", "dropped token")
DENSE = ("llava", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma3", "internvl")
EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "qwen3_vl_moe_32", "qwen3_vl_moe_128")

_VERBS = ["put", "take", "wash", "open", "close"]
_WORDS = [
    *_VERBS,
    "mug",
    "pan",
    "fridge",
    "drawer",
    "milk",
    "spoon",
    "counter",
    "towel",
    "knife",
    "plate",
    "cup",
]


def model_of(name: str, dtype: torch.dtype, seed: int = 0) -> tuple[Any, Any]:
    """Return a copy of a model in this precision, and its processor."""
    if name.startswith("qwen3_vl_moe_"):
        model, processor = build_experts(int(name.rsplit("_", 1)[1]), seed)
    else:
        model, processor = build(name) if name in DENSE else build_around(name)
    return copy.deepcopy(model).to(dtype), processor


def questions(count: int, seed: int = 0) -> Iterator[tuple[list[dict], list[str]]]:
    """Yield messages with one to three images, and up to four candidates of one to six words."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        text = (
            f"What should I do next in order to {' '.join(rng.choice(_WORDS, rng.integers(2, 9)))}?"
        )
        candidates = [" ".join(rng.choice(_WORDS, rng.integers(1, 7))) for _ in range(4)]
        images = [picture(int(rng.integers(1e6))) for _ in range(rng.integers(1, 4))]
        yield user_turn(text, images), list(dict.fromkeys(candidates))


@contextmanager
def planted(fault: str | None) -> Iterator[None]:
    """Plant a fault in the paths `packed` and `cached`.

    - shifted position: the candidates' positions are one too large.
    - leaked candidate: each candidate sees those before it.
    - dropped token: the candidates do not see the last token of the context.
    """
    run_prefix, packed_masks = DecoderPasses._run_prefix, MaskKinds.packed

    def shifted(self, question, cache):
        logits, filled, position = run_prefix(self, question, cache)
        return logits, filled, position + 1

    def shortened(self, question, cache):
        logits, _, position = run_prefix(self, question, copy.deepcopy(cache))
        inputs = {
            name: value[:, :-1] if is_per_token(name, value, question.inputs) else value
            for name, value in question.inputs.items()
        }
        return logits, run_prefix(self, replace(question, inputs=inputs), cache)[1], position

    with pytest.MonkeyPatch.context() as patch:
        if fault == "shifted position":
            patch.setattr(DecoderPasses, "_run_prefix", shifted)
        elif fault == "leaked candidate":
            patch.setattr(
                MaskKinds,
                "packed",
                lambda self, rows, *rest: packed_masks(self, [sum(rows)], *rest),
            )
            patch.setattr(module, "copy", SimpleNamespace(deepcopy=lambda cache: cache))
        elif fault == "dropped token":
            patch.setattr(DecoderPasses, "_run_prefix", shortened)
            patch.setattr(
                MaskKinds,
                "packed",
                lambda self, rows, length, model: packed_masks(self, rows, length - 1, model),
            )
        yield


def outcome(
    name: str, dtype: torch.dtype, fault: str | None, count: int, seed: int = 0
) -> tuple[str, float]:
    """Rank questions with images; return the chosen paths, or the question of a `PathError`, and
    the noise.
    """
    ranker = CandidateRanker(*model_of(name, dtype, seed))
    noise = 0.0
    with planted(fault):
        for number, (messages, candidates) in enumerate(questions(count, seed), 1):
            try:
                noise = ranker.score(messages, candidates)[0].use.noise
            except PathError:
                return f"PathError at {number}", noise
    return " and ".join(sorted(set(ranker.paths.values()))), noise
