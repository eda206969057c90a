"""Compare the agreement of annotators with slow computations from the definitions."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.annotation.agreement import measure
from lmms_egoplan.annotation.flow import Scale
from lmms_egoplan.judging.agreement import krippendorff_alpha


def scale(levels, is_ordered=False):
    return Scale("Rating", levels, dict.get, is_ordered)


def cohen(pairs):
    """Compute Cohen's kappa of one pair of annotators."""
    levels = {value for pair in pairs for value in pair}
    observed = sum(a == b for a, b in pairs) / len(pairs)
    chance = (
        sum(sum(a == level for a, _ in pairs) * sum(b == level for _, b in pairs) for level in levels) / len(pairs) ** 2
    )
    constant = any(len({*ratings}) < 2 for ratings in zip(*pairs, strict=True))
    return None if constant else (observed - chance) / (1 - chance)


def test_pairs_with_few_shared_items_have_no_kappa():
    """Nine in ten labels are equal, but each pair shares only three items, so kappa would be meaningless."""
    labels = [{"lead": number % 2, f"annotator-{number // 3}": number % 2} for number in range(30)]
    for number in (0, 9, 18):
        labels[number][f"annotator-{number // 3}"] = 1 - number % 2
    agreement = measure(scale((0, 1)), labels)
    assert agreement.percent == 90
    assert (agreement.cohen, agreement.cohen_pairs, agreement.cohen_pairs_skipped) == (None, 0, 10)
    assert agreement.krippendorff == pytest.approx(0.8, abs=0.02)
    assert agreement.low < agreement.krippendorff < agreement.high


def test_only_pairs_with_ten_shared_items_count():
    units = [{"A": number % 2, "B": number % 2} for number in range(100)] + [{"A": 0, "C": 1}] * 9
    agreement = measure(scale((0, 1)), units)
    assert (agreement.cohen, agreement.cohen_pairs, agreement.cohen_smallest_overlap) == (1, 1, 100)
    assert (agreement.items, agreement.cohen_pairs_skipped) == (109, 1)
    agreement = measure(scale((0, 1)), [*units, {"A": 1, "C": 0}])
    assert agreement.cohen == pytest.approx((100 * 1 + 10 * cohen([(0, 1)] * 9 + [(1, 0)])) / 110)
    assert (agreement.cohen_pairs, agreement.cohen_smallest_overlap, agreement.cohen_pairs_skipped) == (2, 10, 0)


def test_constant_annotator_has_no_kappa():
    units = [{"A": 1, "B": int(number > 0)} for number in range(10)]
    agreement = measure(scale((0, 1)), units)
    assert (agreement.percent, agreement.cohen, agreement.cohen_pairs_skipped) == (90, None, 1)


names = st.sampled_from("PQRS")
units_of = st.lists(st.dictionaries(names, st.sampled_from((0.0, 0.5, 1.0)), max_size=4), max_size=30)


@settings(max_examples=40, deadline=None)
@given(units_of)
def test_coefficients_match_their_definitions(units):
    agreement = measure(scale((0.0, 0.5, 1.0), True), units)
    several = [unit for unit in units if len(unit) > 1]
    assert agreement.items == len(several)
    pairs = [pair for unit in several for pair in combinations(unit.values(), 2)]
    assert agreement.percent == (pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs)) if pairs else None)
    shared_by = [
        [(unit[first], unit[second]) for unit in units if first in unit and second in unit]
        for first, second in combinations("PQRS", 2)
    ]
    kappas = [
        (kappa, len(shared)) for shared in shared_by if len(shared) >= 10 and (kappa := cohen(shared)) is not None
    ]
    items = sum(shared for _, shared in kappas)
    assert agreement.cohen == (
        pytest.approx(sum(kappa * shared for kappa, shared in kappas) / items) if kappas else None
    )
    assert agreement.cohen_pairs == len(kappas)
    assert agreement.cohen_pairs_skipped == sum(map(bool, shared_by)) - len(kappas)
    assert agreement.cohen_smallest_overlap == (min(shared for _, shared in kappas) if kappas else None)
    values = [list(unit.values()) for unit in units]
    for is_ordered in (True, False):
        alpha = krippendorff_alpha(values, (0.0, 0.5, 1.0), is_ordered=is_ordered)
        agreement = measure(scale((0.0, 0.5, 1.0), is_ordered), units)
        expected = (None,) * 3 if alpha is None else (alpha.value, alpha.low, alpha.high)
        assert (agreement.krippendorff, agreement.low, agreement.high) == expected
