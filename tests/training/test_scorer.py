"""Compare scores and gradients of shared passes with separate passes and with `CandidateRanker`."""

import numpy as np
import pytest
import torch

from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.decoder import UnsupportedPathError
from lmms_egoplan.training.loss import batch_loss
from lmms_egoplan.training.scorer import AnswerPasses
from ranking.reference import reference_loss
from ranking.test_ranking import question
from zoo import FAMILIES, build

ANSWER, NEGATIVE = (
    "put mug on the counter",
    "open the fridge, take the milk and then close it again",
)
SEPARATE_ONLY = {"qwen3_5", "paligemma"}
SHARED = [name for name in FAMILIES if name not in SEPARATE_ONLY]


def cases(names):
    return [
        (name, kind)
        for name in names
        for kind in ("images", *(["video"] if FAMILIES[name].takes_video else []))
    ]


def gradients(model, scores):
    model.zero_grad()
    batch_loss([scores]).loss.backward()
    collected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return collected


# The long answer first: all other cases are nightly.
LONG_FIRST = [(name, "images") for name in ("llava", "qwen2_5_vl", "gemma3", "mllama", "blip2")]


@pytest.mark.parametrize(
    ("name", "kind", "answers"),
    [
        *(
            pytest.param(*case, (ANSWER, NEGATIVE), id="-".join([*case, "short-long"]))
            for case in cases(SHARED)
        ),
        *(
            pytest.param(
                *case,
                (NEGATIVE, ANSWER),
                id="-".join([*case, "long-short"]),
                marks=() if case in LONG_FIRST else pytest.mark.nightly,
            )
            for case in cases(SHARED)
        ),
    ],
)
def test_shared_passes_equal_separate_passes(name, kind, answers):
    model, processor = build(name)
    encoded = CandidateRanker(model, processor).encode(question(kind), answers)
    passes = AnswerPasses(model)
    shared, separate = (
        [s.mean() for s in way(encoded)] for way in (passes.shared, passes.separate)
    )
    np.testing.assert_allclose([s.item() for s in shared], [s.item() for s in separate], atol=1e-5)
    expected, actual = gradients(model, separate), gradients(model, shared)
    assert actual.keys() == expected.keys()
    scale = max(gradient.abs().max() for gradient in expected.values())
    for parameter, gradient in expected.items():
        torch.testing.assert_close(
            actual[parameter] / scale, gradient / scale, atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize(("name", "kind"), cases(["llava", "qwen2_5_vl", "gemma3", "blip2"]))
def test_scores_match_the_reference_and_the_ranker(name, kind):
    model, processor = build(name)
    ranker = CandidateRanker(model, processor)
    encoded = ranker.encode(question(kind), [ANSWER, NEGATIVE])
    scores = [s.mean().item() for s in AnswerPasses(model).shared(encoded)]
    np.testing.assert_allclose(
        scores, [-reference_loss(name, question(kind), a)[0] for a in (ANSWER, NEGATIVE)], atol=1e-5
    )
    np.testing.assert_allclose(
        scores, [-score.nll for score in ranker.score_encoded(encoded)], atol=1e-5
    )


def test_vision_encoder_runs_once():
    model, processor = build("llava")
    encoded = CandidateRanker(model, processor).encode(question("images"), [ANSWER, NEGATIVE])
    passes, runs = AnswerPasses(model), []
    with model.model.vision_tower.register_forward_hook(lambda *_: runs.append(1)):
        passes.shared(encoded)
        assert len(runs) == 1
        passes.separate(encoded)
    assert len(runs) == 3


def test_recurrent_layers_need_separate_passes():
    model, processor = build("qwen3_5")
    encoded = CandidateRanker(model, processor).encode(question("images"), [ANSWER, NEGATIVE])
    with pytest.raises(UnsupportedPathError):
        AnswerPasses(model).shared(encoded)


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl"])
def test_gradient_checkpointing_changes_nothing(name):
    model, processor = build(name)
    encoded = CandidateRanker(model, processor).encode(question("images"), [ANSWER, NEGATIVE])
    passes = AnswerPasses(model)
    expected = gradients(model, [s.mean() for s in passes.shared(encoded)])
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    try:
        actual = gradients(model, [s.mean() for s in passes.shared(encoded)])
    finally:
        model.gradient_checkpointing_disable()
        model.eval()
    assert all(
        torch.allclose(actual[parameter], expected[parameter], rtol=1e-4) for parameter in expected
    )


@pytest.mark.parametrize("answers", [("put", "wash it"), ("wash it", "put"), ("put", "put")])
def test_answers_of_one_token(answers):
    model, processor = build("llava")
    encoded = CandidateRanker(model, processor).encode(question("images"), answers)
    passes = AnswerPasses(model)
    for actual, expected in zip(passes.shared(encoded), passes.separate(encoded), strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)
