"""A wrong path is found in any precision, with and without experts, and a correct one is used."""

import itertools

import pytest
import torch
from transformers import LlavaForConditionalGeneration

from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.equivalence import QUESTIONS
from ranking.planted import DENSE, EXPERTS, FAULTS, model_of, outcome, questions

DTYPES = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize(
    ("names", "dtypes", "faults"),
    [
        pytest.param(["llava"], [torch.float32], FAULTS, id="float32"),
        pytest.param(["llava"], [torch.bfloat16], FAULTS[2:], id="bfloat16"),
        pytest.param(
            ["qwen3_vl_moe_32"], [torch.bfloat16], FAULTS[:1], id="experts", marks=pytest.mark.whole
        ),
        pytest.param(DENSE, DTYPES, FAULTS, id="all without experts", marks=pytest.mark.nightly),
        pytest.param(EXPERTS, DTYPES, FAULTS, id="all with experts", marks=pytest.mark.nightly),
    ],
)
def test_a_planted_path_is_not_chosen(names, dtypes, faults):
    outcomes = {
        case: outcome(*case, count=1 if case[1] == torch.float32 else QUESTIONS)[0]
        for case in itertools.product(names, dtypes, faults)
    }
    assert {case: found for case, found in outcomes.items() if found != "full"} == {}


@pytest.mark.nightly
@pytest.mark.parametrize("num_experts", [32, 128])
def test_a_correct_path_is_used_in_bfloat16_with_experts(num_experts):
    """Over 40 questions, of which six are compared with full passes after the choice."""
    outcomes = [
        outcome(f"qwen3_vl_moe_{num_experts}", torch.bfloat16, None, 40, seed)[0]
        for seed in range(7)
    ]
    assert set(outcomes) <= {"packed", "cached"}


class WithoutMasks(LlavaForConditionalGeneration):
    """A model that ignores masks: masked tokens change its scores, and its packed candidates see
    each other.
    """

    def forward(self, *args, attention_mask=None, **kwargs):
        return super().forward(*args, **kwargs)


def test_the_effect_of_masked_tokens_on_a_model_without_masks_is_not_noise():
    model, processor = model_of("llava", torch.bfloat16)
    copied = WithoutMasks(model.config).eval().to(torch.bfloat16)
    copied.load_state_dict(model.state_dict())
    ranker = CandidateRanker(copied, processor)
    uses = [ranker.score(*question)[0].use for question in questions(QUESTIONS)]
    assert ranker.paths == {"image": "cached"}
    assert 0 < uses[-1].noise < 0.1


def test_rounding_that_depends_on_other_tokens_is_not_taken_for_seeing_later_ones():
    """As in experts that compute the tokens of a pass together."""
    model, processor = model_of("llava", torch.bfloat16)

    def move_last_digit(module, inputs, output):
        values = output[0] if isinstance(output, tuple) else output
        steps = torch.sin(
            1e3 * values.float().sum() + torch.arange(values.numel()).reshape(values.shape)
        )
        values.copy_(values.float() * (1 + torch.finfo(values.dtype).eps * steps))

    for layer in model.model.language_model.layers:
        layer.register_forward_hook(move_last_digit)
    ranker = CandidateRanker(model, processor)
    scores = [ranker.score(*question) for question in questions(QUESTIONS)]
    assert scores[-1][0].use.noise > 1e-3
