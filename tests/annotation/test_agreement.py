"""Compare the agreement of annotators with slow computations from the definitions."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.annotation.agreement import measure, measure_people
from lmms_egoplan.annotation.flow import Scale
from lmms_egoplan.stats.agreement import krippendorff_alpha


def scale(levels, is_ordered=False):
    return Scale("Rating", levels, dict.get, is_ordered)


def cohen(pairs):
    """Compute Cohen's kappa of one pair of annotators."""
    levels = {value for pair in pairs for value in pair}
    observed = sum(a == b for a, b in pairs) / len(pairs)
    chance = (
        sum(
            sum(a == level for a, _ in pairs) * sum(b == level for _, b in pairs)
            for level in levels
        )
        / len(pairs) ** 2
    )
    constant = any(len({*ratings}) < 2 for ratings in zip(*pairs, strict=True))
    return None if constant else (observed - chance) / (1 - chance)


def test_pairs_with_few_shared_items_have_no_kappa():
    """Nine in ten labels are equal, but each pair shares only three items.

    Kappa would be meaningless.
    """
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
    assert (
        agreement.cohen_pairs,
        agreement.cohen_smallest_overlap,
        agreement.cohen_pairs_skipped,
    ) == (2, 10, 0)


def test_constant_annotator_has_no_kappa():
    units = [{"A": 1, "B": int(number > 0)} for number in range(10)]
    agreement = measure(scale((0, 1)), units)
    assert (agreement.percent, agreement.cohen, agreement.cohen_pairs_skipped) == (90, None, 1)


def test_constant_annotator_has_no_kappa_despite_rounding_errors():
    # With floats, 1/21 + 10/21 + 10/21 is less than 1.
    units = [{"A": 0, "B": level} for level, count in enumerate((1, 10, 10)) for _ in range(count)]
    assert measure_people(scale((0, 1, 2)), units)[-1].kappa is None


def planted(seed, items, reliabilities, levels=3):
    """Return labels of annotators who know the truth with their reliability, else guess.

    Each labels most items.
    """
    source = np.random.default_rng(seed)
    truth = source.integers(0, levels, items)
    units = [{} for _ in range(items)]
    for name, reliability in reliabilities.items():
        is_known, guesses = source.random(items) < reliability, source.integers(0, levels, items)
        for unit, value, is_labelled in zip(
            units, np.where(is_known, truth, guesses), source.random(items) < 0.9, strict=True
        ):
            if is_labelled:
                unit[name] = int(value)
    return units


def test_a_careless_annotator_is_told_from_careful_ones():
    reliabilities = {"A": 0.95, "B": 0.9, "C": 0.5, "D": 0.95, "E": 0.9}
    units = planted(0, 400, reliabilities)
    rows = measure_people(scale((0, 1, 2)), units)
    with_all = {row.first: row for row in rows if not row.second}
    careless = with_all.pop("C")
    assert all(careless.percent_high < row.percent_low for row in with_all.values())
    pairs = {(row.first, row.second): row for row in rows if row.second}
    assert [*pairs] == [*combinations("ABCDE", 2)]
    source = np.random.default_rng(1)
    for (first, second), row in pairs.items():
        shared = [(unit[first], unit[second]) for unit in units if {first, second} <= {*unit}]
        assert row.items == len(shared)
        assert row.percent == pytest.approx(100 * sum(a == b for a, b in shared) / len(shared))
        assert row.kappa == pytest.approx(cohen(shared))
        if first == "A":  # Resample the items themselves.
            drawn = [
                [shared[i] for i in source.integers(0, len(shared), len(shared))]
                for _ in range(200)
            ]
            percents = [100 * sum(a == b for a, b in sample) / len(sample) for sample in drawn]
            for low, high, values, width in (
                (row.percent_low, row.percent_high, percents, 1.5),
                (row.kappa_low, row.kappa_high, [cohen(sample) for sample in drawn], 0.03),
            ):
                assert (low, high) == pytest.approx(np.percentile(values, (2.5, 97.5)), abs=width)
    for name, row in (with_all | {"C": careless}).items():
        equal = [
            [unit[name] == value for other, value in unit.items() if other != name]
            for unit in units
            if name in unit
        ]
        equal = [values for values in equal if values]
        assert row.items == len(equal)
        assert row.percent == pytest.approx(100 * sum(map(sum, equal)) / sum(map(len, equal)))
    reordered = [dict(reversed(unit.items())) for unit in reversed(units)]
    assert measure_people(scale((0, 1, 2)), reordered) == rows
    few = measure_people(scale((0, 1, 2)), units[:9])
    assert {(row.percent_low, row.percent_high, row.kappa, row.kappa_low) for row in few} == {
        (None,) * 4
    }
    assert all(row.percent is not None for row in few)


@pytest.mark.nightly
def test_intervals_cover_the_true_values():
    """Two people are equal with probability r * s + (1 - r * s) / 3.

    Kappa is r * s for equally frequent levels.
    """
    reliabilities = {"A": 0.9, "B": 0.8, "C": 0.6}
    covered = Counter()
    for seed in range(150):
        for row in measure_people(scale((0, 1, 2)), planted(seed, 120, reliabilities)):
            if row.second:
                kappa = reliabilities[row.first] * reliabilities[row.second]
                covered["percent"] += (
                    row.percent_low <= 100 * (kappa + (1 - kappa) / 3) <= row.percent_high
                )
                covered["kappa"] += row.kappa_low <= kappa <= row.kappa_high
            else:
                products = [
                    reliabilities[row.first] * value
                    for name, value in reliabilities.items()
                    if name != row.first
                ]
                expected = 100 * sum(kappa + (1 - kappa) / 3 for kappa in products) / 2
                covered["person"] += row.percent_low <= expected <= row.percent_high
    assert all(0.91 * 450 <= count <= 0.98 * 450 for count in covered.values()), covered


names = st.sampled_from("PQRS")
units_of = st.lists(
    st.dictionaries(names, st.sampled_from((0.0, 0.5, 1.0)), max_size=4), max_size=30
)


@settings(max_examples=40, deadline=None)
@given(units_of)
def test_coefficients_match_their_definitions(units):
    agreement = measure(scale((0.0, 0.5, 1.0), True), units)
    several = [unit for unit in units if len(unit) > 1]
    assert agreement.items == len(several)
    pairs = [pair for unit in several for pair in combinations(unit.values(), 2)]
    assert agreement.percent == (
        pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs)) if pairs else None
    )
    shared_by = [
        [(unit[first], unit[second]) for unit in units if first in unit and second in unit]
        for first, second in combinations("PQRS", 2)
    ]
    kappas = [
        (kappa, len(shared))
        for shared in shared_by
        if len(shared) >= 10 and (kappa := cohen(shared)) is not None
    ]
    items = sum(shared for _, shared in kappas)
    assert agreement.cohen == (
        pytest.approx(sum(kappa * shared for kappa, shared in kappas) / items) if kappas else None
    )
    assert agreement.cohen_pairs == len(kappas)
    assert agreement.cohen_pairs_skipped == sum(map(bool, shared_by)) - len(kappas)
    assert agreement.cohen_smallest_overlap == (
        min(shared for _, shared in kappas) if kappas else None
    )
    values = [list(unit.values()) for unit in units]
    for is_ordered in (True, False):
        alpha = krippendorff_alpha(values, (0.0, 0.5, 1.0), is_ordered=is_ordered)
        agreement = measure(scale((0.0, 0.5, 1.0), is_ordered), units)
        expected = (None,) * 3 if alpha is None else (alpha.value, alpha.low, alpha.high)
        assert (agreement.krippendorff, agreement.low, agreement.high) == expected
