"""Compare eq. 1 to 4 with explicit sums."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.training.loss import batch_loss

SCORES = st.floats(-20, 0, width=32)
SAMPLE = st.one_of(st.tuples(SCORES), st.tuples(SCORES, SCORES))


def groups_of(size):
    """Draw up to four groups of this many samples, as one list."""
    return st.integers(1, 4).flatmap(
        lambda count: st.lists(SAMPLE, min_size=size * count, max_size=size * count)
    )


def tensors(samples):
    return [
        [torch.tensor(score, dtype=torch.float64, requires_grad=True) for score in scores]
        for scores in samples
    ]


def contrastive(samples, group):
    """Compute eq. 3 with loops over groups, like processes with `group` samples each."""
    means = []
    for start in range(0, len(samples), group):
        violating = [
            pair[1] - pair[0]
            for pair in samples[start : start + group]
            if len(pair) == 2 and pair[1] > pair[0]
        ]
        means.append(sum(violating) / len(violating) if violating else 0.0)
    return sum(means) / len(means)


@settings(max_examples=50)
@given(st.integers(1, 4), st.data())
def test_loss_equals_explicit_sums(group, data):
    samples = data.draw(groups_of(group))
    nll = sum(-scores[0] for scores in samples) / len(samples)
    pairs = [scores for scores in samples if len(scores) == 2]
    for size in (group, None):
        loss = batch_loss(tensors(samples), size)
        expected = contrastive(samples, size or len(samples))
        assert loss.nll.item() == pytest.approx(nll)
        assert loss.contrastive.item() == pytest.approx(expected)
        assert loss.loss.item() == pytest.approx(nll + expected)
        assert loss.pairs == len(pairs)
        assert loss.violations == sum(negative > answer for answer, negative in pairs)


@pytest.mark.parametrize(
    ("violating", "expected"),
    [
        (1, 1 / 8),
        (2, 1 / 8),
        (3, 2 / 8),
        (16, 1),
    ],  # All gaps are 1 nat. One mean over the batch would be 1.
)
def test_batch_of_16_equals_8_processes_of_2(violating, expected):
    samples = [(-2.0, -1.0)] * violating + [(-1.0, -2.0)] * (16 - violating)
    assert batch_loss(tensors(samples), 2).contrastive.item() == pytest.approx(expected)
    assert batch_loss(tensors(samples)).contrastive.item() == pytest.approx(1)


def test_groups_equal_processes_with_averaged_gradients():
    """In the published configuration, each process averages over its violating samples, then
    gradients are averaged.
    """
    samples = [(-2.0, -1.0), (-3.0, -2.5), (-1.0, -2.0), (-1.0,), (-1.5, -0.5), (-1.0, -1.0)]
    whole, parts = tensors(samples), tensors(samples)
    batch_loss(whole, 2).loss.backward()
    for start in (0, 2, 4):
        (batch_loss(parts[start : start + 2]).loss / 3).backward()
    for one, other in zip(whole, parts, strict=True):
        assert [score.grad for score in one] == [score.grad for score in other]


@settings(max_examples=50)
@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_parts_of_a_batch_sum_to_its_loss_and_gradient(group, groups_in_a_part, data):
    samples = data.draw(groups_of(group))
    whole, parts = tensors(samples), tensors(samples)
    loss = batch_loss(whole, group)
    loss.loss.backward()
    size = group * groups_in_a_part
    shares = [
        batch_loss(parts[first : first + size], group, len(samples))
        for first in range(0, len(samples), size)
    ]
    for share in shares:
        share.loss.backward()
    assert sum(share.loss.item() for share in shares) == pytest.approx(loss.loss.item())
    for one, other in zip(whole, parts, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a.grad is None) == (b.grad is None)
            assert a.grad is None or a.grad.item() == pytest.approx(b.grad.item())


def test_an_incomplete_group_is_refused():
    with pytest.raises(ValueError, match=r"3 samples .* groups of 2"):
        batch_loss(tensors([(-1.0,)] * 3), 2)


def test_satisfied_pair_has_no_gradient_for_the_negative():
    answer, negative = (torch.tensor(value, requires_grad=True) for value in (-1.0, -2.0))
    batch_loss([[answer, negative]]).loss.backward()
    assert answer.grad.item() == -1
    assert negative.grad is None
