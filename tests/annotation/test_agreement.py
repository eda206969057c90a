"""Coefficients of agreement, beside published examples and slow computations by the definitions."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.annotation.agreement import measure
from lmms_egoplan.annotation.flow import Scale

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C: four observers, twelve units.
OBSERVERS = {
    "A": "1 2 3 3 2 1 4 1 2 . . .",
    "B": "1 2 3 3 2 2 4 1 2 5 . 3",
    "C": ". 3 3 3 2 3 4 2 2 5 1 .",
    "D": "1 2 3 3 2 4 4 1 2 5 1 .",
}
LEVELS = (1, 2, 3, 4, 5)


def scale(levels, is_ordered=False):
    return Scale("Rating", levels, dict.get, is_ordered)


def test_krippendorffs_own_example():
    columns = zip(*(row.split() for row in OBSERVERS.values()), strict=True)
    units = [
        {name: None if cell == "." else int(cell) for name, cell in zip(OBSERVERS, column, strict=True)}
        for column in columns
    ]
    assert measure(scale(LEVELS), units).krippendorff == pytest.approx(0.743, abs=5e-4)
    assert measure(scale(LEVELS, True), units).krippendorff == pytest.approx(0.849, abs=5e-4)
    assert measure(scale(LEVELS), units).fleiss is None


def test_fleiss_example_of_psychiatrists():
    """The table of 10 subjects, 14 raters and 5 categories that is often printed: kappa 0.210."""
    counts = ["0 0 0 0 14", "0 2 6 4 2", "0 0 3 5 6", "0 3 9 2 0", "2 2 8 1 1", "7 7 0 0 0", "3 2 6 3 0", "2 5 3 2 2"]
    counts += ["6 5 2 1 0", "0 2 2 3 7"]
    units = []
    for line in counts:
        values = [level for level, count in enumerate(line.split(), 1) for _ in range(int(count))]
        units.append({f"rater {place}": value for place, value in enumerate(values)})
    assert measure(scale(LEVELS), units).fleiss == pytest.approx(0.210, abs=5e-4)


def cohen(pairs):
    """Of one pair of annotators."""
    levels = {value for pair in pairs for value in pair}
    observed = sum(a == b for a, b in pairs) / len(pairs)
    chance = (
        sum(sum(a == level for a, _ in pairs) * sum(b == level for _, b in pairs) for level in levels) / len(pairs) ** 2
    )
    return None if len(levels) < 2 else (observed - chance) / (1 - chance)


def alpha(units, distance):
    """1 - observed / expected, over ordered pairs of single values."""
    values = [value for unit in units for value in unit]
    expected = sum(distance(a, b) for a, b in permutations(values, 2)) / (len(values) * (len(values) - 1))
    observed = sum(sum(distance(a, b) for a, b in permutations(u, 2)) / (len(u) - 1) for u in units) / len(values)
    return None if expected == 0 else 1 - observed / expected


def test_a_pair_that_shares_one_item_weighs_as_one_item():
    units = [{"A": number % 2, "B": number % 2} for number in range(100)] + [{"A": 0, "C": 1}]
    found = measure(scale((0, 1)), units)
    assert found.cohen == pytest.approx(100 / 101)
    assert (found.cohen_pairs, found.cohen_smallest_overlap) == (2, 1)
    found = measure(scale((0, 1)), [*units[:100], {"A": 1, "C": 1}])
    assert (found.cohen, found.cohen_pairs, found.cohen_smallest_overlap) == (1, 1, 100)


names = st.sampled_from("PQRS")
units_of = st.lists(st.dictionaries(names, st.sampled_from((0.0, 0.5, 1.0)), max_size=4), max_size=12)


@given(units_of)
def test_all_coefficients_by_their_definitions(units):
    found = measure(scale((0.0, 0.5, 1.0), True), units)
    several = [unit for unit in units if len(unit) > 1]
    assert found.items == len(several)
    pairs = [pair for unit in several for pair in combinations(unit.values(), 2)]
    assert found.percent == (pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs)) if pairs else None)
    kappas = [
        (kappa, len(shared))
        for one, other in combinations("PQRS", 2)
        if (shared := [(unit[one], unit[other]) for unit in units if one in unit and other in unit])
        and (kappa := cohen(shared)) is not None
    ]
    items = sum(shared for _, shared in kappas)
    assert found.cohen == (pytest.approx(sum(kappa * shared for kappa, shared in kappas) / items) if kappas else None)
    assert found.cohen_pairs == len(kappas)
    assert found.cohen_smallest_overlap == (min(shared for _, shared in kappas) if kappas else None)
    values = [list(unit.values()) for unit in several]
    expected = alpha(values, lambda a, b: (a - b) ** 2) if values else None
    assert found.krippendorff == (None if expected is None else pytest.approx(expected))
    nominal = alpha(values, lambda a, b: a != b) if values else None
    assert measure(scale((0.0, 0.5, 1.0)), units).krippendorff == (None if nominal is None else pytest.approx(nominal))
