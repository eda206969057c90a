"""Compare verdicts on two runs with a slow version, exact tests, and the closed test over all
hypotheses.
"""

import itertools
import math
import random
import re
from statistics import fmean
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammainc, gammaincc, stdtr
from scipy.stats import poisson

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.stats.equivalence import ERROR_RATE, POWER, decide, family_p_values, weigh
from lmms_egoplan.stats.intervals import compare
from report.reading import all_tasks
from report.synthetic import write_run

NORMAL_95, NORMAL_90 = 1.6448536, 1.2815516


def weighed(pairs, clusters=None, margin=1.0, largest=1):
    """Weigh runs with these pairs of scores. By default, each pair is its own cluster."""
    names = [f"q{number:05}" for number in range(len(pairs))]
    first, second = (
        {name: pair[run] for name, pair in zip(names, pairs, strict=True)} for run in (0, 1)
    )
    return weigh(first, second, dict(zip(names, clusters or names, strict=True)), margin, largest)


def verdict(*arguments, **options):
    """Return the verdict on a pair; see `read`."""
    (text,) = decide([weighed(*arguments, **options)])
    return text and read(text)


def read(text):
    """Return the claims of a verdict, and the number of questions that would be needed."""
    needed = re.search("about ([0-9,]+) questions", text)
    is_different, is_equal = text.startswith("different"), "equal within" in text
    assert text.startswith("undecided") == (not is_different and not is_equal)
    return SimpleNamespace(
        text=text,
        is_different=is_different,
        is_equal=is_equal,
        needed=needed and int(needed[1].replace(",", "")),
    )


def changes(better, worse, same):
    """Return pairs of right-or-wrong scores."""
    return [(1, 0)] * better + [(0, 1)] * worse + [(1, 1)] * same


def drawn(count, seed, values=(0, 1), clusters=40):
    """Return pairs of scores that agree in most clusters, and clusters of uneven sizes."""
    source = random.Random(seed)
    names = [
        f"video {min(source.randrange(clusters), source.randrange(clusters))}" for _ in range(count)
    ]
    unstable = {name: source.random() ** 3 for name in sorted(set(names))}
    pairs = []
    for name in names:
        score = source.choice(values)
        pairs.append((score, source.choice(values) if source.random() < unstable[name] else score))
    return pairs, names


def slow_p_value(pairs, clusters, margin):
    """Test equality with loops, for scores up to 1: drop each cluster once, and add the
    pseudo-cluster.
    """
    groups = {name: [] for name in clusters}
    for (first, second), name in zip(pairs, clusters, strict=True):
        groups[name].append(first - second)
    total = len(pairs)
    mean = sum(sum(values) for values in groups.values()) / total
    moves_of = [
        fmean(value for other, values in groups.items() if other != name for value in values) - mean
        for name in groups
    ]
    sizes = [len(values) for values in groups.values()]
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    typical = total / effective
    changed = [values for values in groups.values() if any(values)]
    # Each change, weighted by its size, sees the share of its video that changes.
    shares = [
        (abs(value), sum(map(abs, values)) / len(values)) for values in changed for value in values
    ]
    share = sum(size * part for size, part in shares) / (sum(size for size, _ in shares) or 1)
    pseudo = typical * fmean([*[share] * len(changed), 1]) / total
    p_values = []
    for sign in (1, -1):
        # Without a cluster, the mean moves away from that cluster's differences.
        moves = [-sign * move for move in moves_of]
        variance = (len(groups) - 1) / len(groups) * sum(move**2 for move in moves) + pseudo**2
        skewness = 2 * (sum(move**3 for move in moves) + pseudo**3) / variance**1.5
        distance = (margin / 100 - sign * mean - pseudo) / math.sqrt(variance)
        p_values += [stdtr(effective - 1, -distance), slow_pearson(distance, skewness)]
    return max(p_values)


def slow_pearson(distance, skewness):
    """Return a standardised gamma distribution's upper tail, mirrored for negative skewness."""
    shape = 4 / skewness**2
    quantile = shape + math.copysign(distance, distance * skewness) * math.sqrt(shape)
    return (gammaincc if skewness > 0 else gammainc)(shape, max(0, quantile))


def slow_family(pairs):
    """Correct p-values by the closed test: reject a claim's hypothesis if all intersections with it
    are rejected.
    """
    corrected = []
    for index in range(len(pairs)):
        row = []
        for claim in (0, 1):
            worst = 0.0
            for kinds in itertools.product((None, 0, 1), repeat=len(pairs)):
                if kinds[index] == claim:
                    within = [
                        pair[kind]
                        for pair, kind in zip(pairs, kinds, strict=True)
                        if kind is not None
                    ]
                    worst = max(worst, min(1.0, len(within) * min(within)))
            row.append(worst)
        corrected.append(tuple(row))
    return corrected


@pytest.mark.parametrize("values", [(0, 1), (0, 0.5, 1), (0.0, 0.25, 0.9)])
@pytest.mark.parametrize("margin", [0.5, 1, 5, 20])
def test_p_value_of_equality_is_that_of_a_slow_version(values, margin):
    for seed in range(2):
        pairs, clusters = drawn(300, seed, values)
        assert weighed(pairs, clusters, margin).p_equal == pytest.approx(
            slow_p_value(pairs, clusters, margin), rel=1e-6
        )


def test_comparison_and_means_are_those_of_the_scores():
    pairs, clusters = drawn(200, 0)
    evidence = weighed(pairs, clusters)
    names = [str(number) for number in range(200)]
    first, second = (dict(zip(names, scores, strict=True)) for scores in zip(*pairs, strict=True))
    expected = compare(first, second, dict(zip(names, clusters, strict=True)))
    assert evidence.comparison.difference == expected.difference
    assert evidence.comparison.p_value == pytest.approx(expected.p_value, abs=0.02)
    assert (evidence.first, evidence.second) == pytest.approx(
        [fmean(scores) for scores in zip(*pairs, strict=True)]
    )


@pytest.mark.parametrize("changed", [0, 1, 2, 4, 9, 20])
@pytest.mark.parametrize("better", [True, False])
def test_rare_changes_in_one_direction_have_the_poisson_test(changed, better):
    pairs = changes(changed, 0, 2000 - changed) if better else changes(0, changed, 2000 - changed)
    p_value = weighed(pairs).p_equal
    if p_value < 0.4:  # Student's t decides on the others.
        assert p_value == pytest.approx(poisson.cdf(changed, 20), rel=0.05)


def test_complete_agreement_needs_three_hundred_questions():
    assert [verdict(changes(0, 0, count)).is_equal for count in (100, 299, 300, 1000)] == [
        False,
        False,
        True,
        True,
    ]
    few = verdict(changes(0, 0, 100))
    assert not few.is_different
    assert 300 < few.needed < 500
    assert verdict(changes(0, 0, 60), margin=5).is_equal


def test_agreement_in_few_videos_counts_videos():
    pairs, videos = changes(0, 0, 840), [str(number % 60) for number in range(840)]
    assert not verdict(pairs, videos).is_equal
    assert verdict(pairs, videos, margin=6).is_equal


@pytest.mark.nightly
def test_a_small_certain_difference_is_different_and_equal():
    both = verdict(changes(100, 0, 19_900))
    assert (both.is_different, both.is_equal) == (True, True)
    assert both.text == "different, but equal within 1 point"
    assert verdict(changes(400, 0, 19_600)).text == "different"
    assert verdict(changes(5, 4, 9_000)).text == "equal within 1 point"
    assert verdict(changes(5, 4, 9_000), margin=1.5).text == "equal within 1.5 points"


def test_one_cluster_has_no_verdict():
    for count in (1, 9):
        pairs, clusters = changes(0, 0, 900), [str(number % count) for number in range(900)]
        assert verdict(pairs, clusters) is None
        assert math.isnan(weighed(pairs, clusters).p_equal)
    assert verdict(changes(0, 0, 900), [str(number % 10) for number in range(900)]) is not None


def test_a_giant_cluster_is_not_evidence_of_equality():
    pairs = changes(0, 0, 5_000)
    clusters = [f"small {number}" if number < 50 else "giant" for number in range(5_000)]
    decided = verdict(pairs, clusters)
    assert not decided.is_equal
    assert not decided.is_different
    assert decided.needed > 5_000


def test_missing_scores_are_ignored():
    pairs, clusters = drawn(200, 3)
    gaps = [(None, 1), (0, math.nan), (math.inf, 0), (None, None)]
    with_gaps = weighed([*pairs, *gaps], [*clusters, clusters[0], "a", "b", "c"])
    assert with_gaps == weighed(pairs, clusters)
    assert weighed(gaps) is None


@pytest.mark.parametrize("margin", [0, -1, 100, math.nan, math.inf])
def test_an_invalid_margin_is_an_error(margin):
    with pytest.raises(ValueError, match="margin"):
        weighed(changes(1, 1, 20), margin=margin)


def test_the_unit_of_scores_does_not_matter():
    pairs, clusters = drawn(300, 4, (0, 0.5, 1))
    scaled = weighed(
        [(100 * first, 100 * second) for first, second in pairs], clusters, largest=100
    )
    plain = weighed(pairs, clusters)
    assert scaled.p_equal == pytest.approx(plain.p_equal, rel=1e-9)
    assert (scaled.variance, scaled.pseudo) == pytest.approx(
        (plain.variance, plain.pseudo), rel=1e-9
    )
    assert decide([scaled]) == decide([plain])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from([0, 0.5, 1]), st.integers(0, 14)),
        min_size=1,
        max_size=80,
    ),
    st.sampled_from([1, 10, 50]),
)
def test_exchanged_runs_have_the_same_verdict(questions, margin):
    clusters = [str(cluster) for *_, cluster in questions]
    one = weighed([(first, second) for first, second, _ in questions], clusters, margin)
    other = weighed([(second, first) for first, second, _ in questions], clusters, margin)
    assert (one.first, one.second) == (other.second, other.first)
    assert one.p_equal == pytest.approx(other.p_equal, rel=1e-9, nan_ok=True)
    if abs(one.comparison.p_value - ERROR_RATE) > 0.02:  # Random sign flips have a small error.
        assert decide([one]) == decide([other])


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=4))
def test_corrected_p_values_are_those_of_the_closed_test(per_cent):
    pairs = [(first / 100, second / 100) for first, second in per_cent]
    for corrected, expected in zip(family_p_values(pairs), slow_family(pairs), strict=True):
        assert corrected == pytest.approx(expected)


def test_pairs_that_are_decided_together_share_the_error_rate():
    sure, close = weighed(changes(0, 0, 2000)), weighed(changes(0, 0, 310))
    assert ERROR_RATE / 2 < close.p_equal < ERROR_RATE
    without = weighed(changes(0, 0, 5), margin=1)
    assert [read(text).is_equal for text in decide([sure, close])] == [True, False]
    assert decide([without, close, without])[0] is None
    assert read(decide([without, close, without])[1]).is_equal
    assert decide([]) == []


def test_needed_questions_solve_the_condition_for_a_claim():
    pairs = changes(30, 28, 942)
    evidence, decided = weighed(pairs), verdict(pairs)
    assert not decided.is_equal
    variance = evidence.variance * 1000
    count = next(
        count
        for count in range(1000, 100_000)
        if 0.01 - evidence.pseudo / count
        >= (NORMAL_95 + NORMAL_90) * math.sqrt(variance / count + (evidence.pseudo / count) ** 2)
    )
    assert decided.needed == pytest.approx(count, rel=0.05)
    assert POWER == 0.8  # NORMAL_90 is for this power.


def test_needed_questions_for_a_difference_above_the_margin():
    pairs = changes(20, 10, 170)
    decided = verdict(pairs)
    assert not decided.is_different
    quantiles = 1.9599640 + 0.8416212
    expected = (30 / 200 - 0.05**2) * 200 / 199 * quantiles**2 / 0.05**2
    assert decided.needed == pytest.approx(expected, rel=0.05)


def test_the_highest_scores_are_those_of_the_specifications(tmp_path):
    write_run(tmp_path, "lmms-eval", "org/m", all_tasks())
    reports = [report for _, report in read_reports(read_runs([tmp_path]).runs, BENCHMARKS)]
    assert len(reports) >= 4
    for report in reports:
        for task in report.tasks:
            assert task.largest * report.SPEC.scale == report.SPEC.top
