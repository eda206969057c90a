"""Eq. 1 to 4 against sums written out."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.training.loss import batch_loss, count_violations

SCORES = st.floats(-20, 0, width=32)
SAMPLES = st.lists(st.one_of(st.tuples(SCORES), st.tuples(SCORES, SCORES)), min_size=1, max_size=8)


def tensors(samples):
    return [[torch.tensor(score, dtype=torch.float64, requires_grad=True) for score in scores] for scores in samples]


def contrastive(samples, group):
    """Eq. 3 with loops over groups, as processes take them that have `group` samples each."""
    means = []
    for start in range(0, len(samples), group):
        violating = [
            pair[1] - pair[0] for pair in samples[start : start + group] if len(pair) == 2 and pair[1] > pair[0]
        ]
        means.append(sum(violating) / len(violating) if violating else 0.0)
    return sum(means) / len(means)


@given(SAMPLES, st.one_of(st.none(), st.integers(1, 9)))
def test_the_loss_is_the_sum_written_out(samples, group):
    nll = sum(-scores[0] for scores in samples) / len(samples)
    pairs = [scores for scores in samples if len(scores) == 2]
    loss = batch_loss(tensors(samples), group)
    assert loss.nll.item() == pytest.approx(nll)
    assert loss.contrastive.item() == pytest.approx(contrastive(samples, group or len(samples)))
    assert loss.loss.item() == pytest.approx(loss.nll.item() + loss.contrastive.item())
    assert loss.pairs == len(pairs)
    assert loss.violations == sum(negative > answer for answer, negative in pairs)


@pytest.mark.parametrize(
    ("violating", "expected"),
    [(1, 1 / 8), (2, 1 / 8), (3, 2 / 8), (16, 1)],  # all gaps are 1 nat; before, the mean over the batch was 1
)
def test_a_batch_of_16_counts_as_8_processes_of_2(violating, expected):
    samples = [(-2.0, -1.0)] * violating + [(-1.0, -2.0)] * (16 - violating)
    assert batch_loss(tensors(samples), 2).contrastive.item() == pytest.approx(expected)
    assert batch_loss(tensors(samples)).contrastive.item() == pytest.approx(1)


def test_groups_are_as_processes_whose_gradients_are_averaged():
    """The published configuration: each process has the mean over its violating samples; gradients are averaged."""
    samples = [(-2.0, -1.0), (-3.0, -2.5), (-1.0, -2.0), (-1.0,), (-1.5, -0.5), (-1.0, -1.0)]
    together, apart = tensors(samples), tensors(samples)
    batch_loss(together, 2).loss.backward()
    for start in (0, 2, 4):
        (batch_loss(apart[start : start + 2]).loss / 3).backward()
    for one, other in zip(together, apart, strict=True):
        assert [score.grad for score in one] == [score.grad for score in other]


@given(SAMPLES, st.lists(st.integers(1, 7), max_size=3), st.one_of(st.none(), st.integers(1, 9)))
def test_parts_of_a_batch_sum_to_its_loss_and_gradient(samples, cuts, group):
    whole, parts = tensors(samples), tensors(samples)
    loss = batch_loss(whole, group)
    loss.loss.backward()
    bounds = sorted({0, len(samples), *(cut for cut in cuts if cut < len(samples))})
    places = [
        ({"group": group, "samples": len(samples), "first": first}, parts[first:last])
        for first, last in pairwise(bounds)
    ]
    size = {"group": group or len(samples), "samples": len(samples)}
    counts = [count_violations(part, **{**place, **size}) for place, part in places]
    violations = [sum(column) for column in zip(*counts, strict=True)]
    losses = [batch_loss(part, **place, violations=violations) for place, part in places]
    for part in losses:
        part.loss.backward()
    assert sum(part.loss.item() for part in losses) == pytest.approx(loss.loss.item())
    for one, other in zip(whole, parts, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a.grad is None) == (b.grad is None)
            assert a.grad is None or a.grad.item() == pytest.approx(b.grad.item())


@given(SAMPLES, st.integers(1, 3), st.integers(1, 3))
def test_parts_that_hold_whole_groups_need_no_counts_of_others(samples, group, groups_in_a_part):
    size = group * groups_in_a_part
    parts = [
        batch_loss(tensors(samples[first : first + size]), group, len(samples), first)
        for first in range(0, len(samples), size)
    ]
    assert sum(part.contrastive.item() for part in parts) == pytest.approx(contrastive(samples, group))


def test_a_satisfied_pair_leaves_the_answer_alone_and_the_negative_untouched():
    answer, negative = (torch.tensor(value, requires_grad=True) for value in (-1.0, -2.0))
    batch_loss([[answer, negative]]).loss.backward()
    assert answer.grad.item() == -1
    assert negative.grad is None
