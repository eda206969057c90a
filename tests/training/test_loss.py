"""Eq. 1 to 4 against sums written out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.training.loss import batch_loss

SCORES = st.floats(-20, 0, width=32)
SAMPLES = st.lists(st.one_of(st.tuples(SCORES), st.tuples(SCORES, SCORES)), min_size=1, max_size=8)


def tensors(samples):
    return [[torch.tensor(score, dtype=torch.float64, requires_grad=True) for score in scores] for scores in samples]


@given(SAMPLES)
def test_the_loss_is_the_sum_written_out(samples):
    expected = sum(-scores[0] for scores in samples) / len(samples)
    gaps = [scores[1] - scores[0] for scores in samples if len(scores) == 2]
    violating = [gap for gap in gaps if gap > 0]
    if violating:
        expected += sum(violating) / len(violating)
    loss = batch_loss(tensors(samples))
    assert loss.loss.item() == pytest.approx(expected)
    assert (loss.samples, loss.pairs, loss.violations) == (len(samples), len(gaps), len(violating))


@given(SAMPLES, st.integers(1, 7))
def test_parts_of_a_batch_sum_to_its_loss_and_gradient(samples, cut):
    whole, parts = tensors(samples), tensors(samples)
    loss = batch_loss(whole)
    loss.loss.backward()
    split = [part for part in (parts[:cut], parts[cut:]) if part]
    losses = [batch_loss(part, loss.samples, loss.violations) for part in split]
    for part in losses:
        part.loss.backward()
    assert sum(part.loss.item() for part in losses) == pytest.approx(loss.loss.item())
    for one, other in zip(whole, parts, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a.grad is None) == (b.grad is None)
            assert a.grad is None or a.grad.item() == pytest.approx(b.grad.item())


def test_a_satisfied_pair_leaves_the_answer_alone_and_the_negative_untouched():
    answer, negative = (torch.tensor(value, requires_grad=True) for value in (-1.0, -2.0))
    batch_loss([[answer, negative]]).loss.backward()
    assert answer.grad.item() == -1
    assert negative.grad is None
