"""Compare intervals and tests of differences with slow versions, values by hand, and libraries."""

import itertools
import math
import random
import warnings
from fractions import Fraction
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from lmms_egoplan.stats import intervals
from lmms_egoplan.stats.intervals import (
    EXACT_UP_TO,
    PERMUTATIONS,
    RESAMPLES,
    bootstrap_interval,
    compare,
    holm,
    interval_of_sums,
    score_interval,
    score_interval_of_sums,
    stratified_interval,
    stratified_score_interval,
    wilson_interval,
)
from patience import processor_time_below
from stats.slow_wilson import slow_wilson

THIRDS = (Fraction(0), Fraction(1, 3), Fraction(2, 3), Fraction(1))


def clustered(count, seed=0, largest=12):
    """Return values and clusters. Large clusters have large values, to test the weights."""
    source = random.Random(seed)
    values, clusters = [], []
    for cluster in range(count):
        size = source.randint(1, largest)
        level = size + source.gauss(0, 1)
        values += [level + source.gauss(0, 1) for _ in range(size)]
        clusters += [f"video {cluster:04}"] * size
    return values, clusters


def slow_interval(values, clusters, statistic, resamples=2000):
    source = random.Random(1)
    groups = [
        [value for value, video in zip(values, clusters, strict=True) if video == name]
        for name in set(clusters)
    ]
    resampled = [
        statistic([*itertools.chain(*source.choices(groups, k=len(groups)))])
        for _ in range(resamples)
    ]
    return np.percentile(resampled, (2.5, 97.5))


def slow_sign_flips(sums):
    """Return the fraction of all sign flips whose total is at least as far from 0."""
    totals = [
        sum(sign * value for sign, value in zip(signs, sums, strict=True))
        for signs in flips(len(sums))
    ]
    return Fraction(sum(abs(total) >= abs(sum(sums)) for total in totals), len(totals))


def flips(count):
    return itertools.product((1, -1), repeat=count)


def compared(pairs, clusters=None):
    """Compare runs with these pairs of scores. By default, each pair is its own cluster."""
    names = [f"q{number:04}" for number in range(len(pairs))]
    first, second = (
        {name: pair[run] for name, pair in zip(names, pairs, strict=True)} for run in (0, 1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return compare(first, second, dict(zip(names, clusters or names, strict=True)))


def test_interval_is_that_of_a_slow_clustered_bootstrap():
    values, clusters = clustered(60)
    slow = slow_interval(values, clusters, fmean)
    assert bootstrap_interval(values, clusters) == pytest.approx(
        slow, abs=0.1 * (slow[1] - slow[0])
    )
    of_cluster_means = slow_interval([*range(60)], [*range(60)], lambda drawn: fmean(drawn))
    assert slow[1] - slow[0] != pytest.approx(of_cluster_means[1] - of_cluster_means[0], rel=0.2)


def test_interval_of_another_statistic_of_sums():
    values, clusters = clustered(40)
    slow = slow_interval(
        values, clusters, lambda drawn: fmean(value**2 for value in drawn) - fmean(drawn) ** 2
    )
    rows = np.array([[[value**2, value], [1, 1]] for value in values])

    def variance(sums):
        squares, means = np.moveaxis(sums[..., 0, :] / sums[..., 1, :], -1, 0)
        return squares - means**2

    assert interval_of_sums(rows, clusters, variance) == pytest.approx(
        slow, abs=0.1 * (slow[1] - slow[0])
    )


def test_means_of_a_batch_of_resamples_equal_single_means():
    questions = [*zip(*clustered(30), strict=True)]
    random.Random(0).shuffle(questions)
    values, clusters = zip(*questions, strict=True)
    groups = [
        np.array([value for value, cluster in questions if cluster == name])
        for name in sorted(set(clusters))
    ]
    interval = bootstrap(
        ([*range(30)],),
        lambda drawn: np.concatenate([groups[number] for number in drawn.astype(int)]).mean(),
        method="percentile",
        n_resamples=RESAMPLES,
        vectorized=False,
        batch=500,
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert bootstrap_interval(values, clusters) == pytest.approx(tuple(interval), rel=1e-12)


def test_interval_of_single_questions_is_scipys():
    values, _ = clustered(20)
    single_clusters = [f"{number:04}" for number in range(len(values))]
    scipys = bootstrap(
        (values,), np.mean, method="percentile", n_resamples=RESAMPLES, rng=np.random.default_rng(0)
    ).confidence_interval
    assert bootstrap_interval(values, single_clusters) == pytest.approx(tuple(scipys), rel=1e-12)


def test_interval_does_not_depend_on_the_order_of_questions():
    values, clusters = clustered(30)
    order = random.Random(0).sample(range(len(values)), len(values))
    shuffled = bootstrap_interval(
        [values[index] for index in order], [clusters[index] for index in order]
    )
    assert shuffled == pytest.approx(bootstrap_interval(values, clusters), rel=1e-12)


def test_missing_values_are_ignored():
    values, clusters = clustered(10)
    gaps = [None, math.nan, math.inf, -math.inf]
    assert bootstrap_interval(
        [*gaps, *values], ["a", "b", "c", clusters[0], *clusters]
    ) == bootstrap_interval(values, clusters)


@pytest.mark.parametrize(
    ("values", "clusters"),
    [
        ([], []),
        ([1.0, 2.0], ["a", "a"]),
        ([1.0, 0.0] * 9, [*"abcdefghi"] * 2),
        ([*([1.0, 0.0] * 9), None], [*"abcdefghi", *"abcdefghi", "j"]),
        ([math.nan] * 12, [*"abcdefghijkl"]),
    ],
)
def test_fewer_than_ten_clusters_have_no_interval(values, clusters):
    assert bootstrap_interval(values, clusters) is None
    assert score_interval(values, clusters, 2) is None


def graded_groups(kind, count=14):
    """Return the scores of each video: from 0 to 1, all equal, or right and wrong in videos of
    several sizes.
    """
    source = random.Random(2)
    sizes = [1 + number % 5 + 20 * (number == 3) for number in range(count)]
    draw = {
        "none right": lambda: 0.0,
        "all right": lambda: 1.0,
        "all half": lambda: 0.5,
        "one right": lambda: 0.0,
        "right and wrong": lambda: float(source.random() < 0.8),
        "graded": lambda: source.choice((0.0, 0.5, 1.0)),
    }[kind]
    groups = [[draw() for _ in range(size)] for size in sizes]
    if kind == "one right":
        groups[5][0] = 1.0
    return groups


@pytest.mark.parametrize(
    "kind", ["none right", "all right", "all half", "one right", "right and wrong", "graded"]
)
@pytest.mark.parametrize("top", [1, 100])
def test_the_interval_of_a_score_is_that_of_its_definition_and_never_a_point(kind, top):
    groups = graded_groups(kind)
    values = [top * score for group in groups for score in group]
    clusters = [f"video {number:02}" for number, group in enumerate(groups) for _ in group]
    low, high = score_interval(values, clusters, top)
    assert (low / top, high / top) == pytest.approx(slow_wilson(groups, fmean), abs=1e-9)
    assert 0 <= low <= fmean(values) <= high <= top
    assert high - low > 0.1 * top
    order = random.Random(0).sample(range(len(values)), len(values))
    shuffled = score_interval(
        [values[index] for index in order], [clusters[index] for index in order], top
    )
    assert shuffled == pytest.approx((low, high))


def test_the_interval_of_a_mirrored_score_is_mirrored():
    groups = graded_groups("right and wrong")
    values = [score for group in groups for score in group]
    clusters = [number for number, group in enumerate(groups) for _ in group]
    low, high = score_interval(values, clusters, 1)
    assert score_interval([1 - value for value in values], clusters, 1) == pytest.approx(
        (1 - high, 1 - low)
    )


def test_intervals_of_scores_cover_the_true_rate():
    """A small version of perf/intervals.py.

    Percentiles of resampled videos cover 75 to 93 % of the rates here.
    """
    chance = np.random.default_rng(0)
    low_coverages = []
    for videos, rate in itertools.product((12, 20, 30, 60), (0.1, 0.5, 0.9)):
        sizes = np.maximum(
            1, np.rint(8 * np.exp(0.8 * chance.standard_normal((videos, 1000)) - 0.32))
        ).astype(int)
        right = chance.binomial(sizes, chance.beta(3 * rate, 3 * (1 - rate), sizes.shape))
        low, high = wilson_interval(
            np.stack([right, sizes], -1), sizes, lambda sums: sums[..., 0] / sums[..., 1]
        )
        coverage = ((low <= rate) & (rate <= high)).mean()
        if not 0.93 - 0.015 <= coverage <= 0.97 + 0.015:  # two standard errors of 1,000 draws
            low_coverages.append((videos, rate, coverage))
    assert low_coverages == []


@pytest.mark.parametrize("values", [[0, 1, -0.1], [0, 1, 1.1]])
def test_a_score_outside_its_range_is_an_error(values):
    with pytest.raises(ValueError, match="from 0 to 1"):
        score_interval(values * 4, [*range(12)], 1)


def test_rounding_errors_of_scores_are_ignored():
    exact = score_interval([0, 1, 1] * 4, [*range(12)], 1)
    assert score_interval([-1e-17, 1, 1 + 1e-15] * 4, [*range(12)], 1) == pytest.approx(exact)
    assert score_interval([-1e-17] * 12, [*range(12)], 1)[0] == 0


def test_a_score_undefined_without_a_cluster_has_no_interval():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = np.array([[1.0, 1.0], *[[0.0, 0.0]] * 11])
        ratio = score_interval_of_sums(
            rows, np.arange(12), lambda sums: sums[..., 0] / sums[..., 1], 1
        )
        assert ratio is None


def test_strata_of_equal_scores_have_the_interval_of_as_many_independent_answers():
    low, high = stratified_score_interval([[100.0] * 20, [100.0] * 20], 100)
    assert high == 100
    assert low == pytest.approx(100 / (1 + intervals.stdtrit(38, 0.975) ** 2 / 40))
    loss = intervals.stdtrit(15, 0.975) ** 2 / 15
    high = 100 * math.sqrt(loss / (1 + loss))
    assert stratified_score_interval([[-100.0, 100.0] * 8], 100) == pytest.approx((-high, high))


def test_equal_values_have_an_interval_without_width():
    assert bootstrap_interval([0.3] * 13, [*"aabbbcdefghij"]) == pytest.approx((0.3, 0.3))
    assert bootstrap_interval([1, 0] * 10, [*"aabbccddeeffgghhiijj"]) == (0.5, 0.5)


def test_a_statistic_undefined_in_a_resample_has_no_interval():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows, is_one = (
            np.array([[0.0], *[[1.0]] * 9]),
            lambda sums: np.where(sums[..., 0] == 10, math.nan, 1.0),
        )
        assert interval_of_sums(rows, [*"abcdefghij"], is_one) is None


def test_a_missing_cluster_is_an_error():
    with pytest.raises(ValueError, match="got 1 for 2"):
        bootstrap_interval([0.0, 1.0], ["a"])


@pytest.mark.nightly
def test_only_intervals_over_clusters_cover_the_true_mean(monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 500)
    source = np.random.default_rng(0)
    hits = {"clusters": 0, "questions": 0}
    rounds = 200
    for seed in range(rounds):
        clusters = np.repeat(np.arange(50), source.integers(1, 9, 50))
        values = source.normal(size=50)[clusters] + source.normal(size=len(clusters))
        for kind, units in (("clusters", clusters), ("questions", np.arange(len(clusters)))):
            monkeypatch.setattr(intervals, "_SEED", seed)
            low, high = bootstrap_interval(values, units)
            hits[kind] += low <= 0 <= high
    assert 0.88 <= hits["clusters"] / rounds <= 0.98
    assert hits["questions"] / rounds < 0.8


def test_a_whole_benchmark_takes_little_time():
    values, clusters = clustered(500)
    assert len(values) > 3000
    with processor_time_below(10):  # usually 0.01
        bootstrap_interval(values, clusters)


@pytest.mark.parametrize("only_first", [0, 1, 3, 12])
@pytest.mark.parametrize("only_second", [0, 1, 5, 40])
def test_right_and_wrong_are_compared_by_mcnemars_exact_test(only_first, only_second):
    pairs = [(1, 0)] * only_first + [(0, 1)] * only_second + [(1, 1)] * 3 + [(0, 0)] * 2
    comparison = compared(pairs)
    discordant, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(discordant, count) for count in range(fewer + 1)) / 2**discordant
    assert (comparison.test, comparison.questions, comparison.clusters) == (
        "McNemar",
        len(pairs),
        len(pairs),
    )
    assert comparison.p_value == pytest.approx(min(1.0, 2 * tail))
    assert comparison.difference == pytest.approx((only_first - only_second) / len(pairs))
    if len(pairs) < 10:
        assert (comparison.low, comparison.high) == (None, None)
    else:
        assert comparison.low <= comparison.difference <= comparison.high


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(THIRDS), st.sampled_from(THIRDS), st.sampled_from("abcdefghijkl")
        ),
        min_size=1,
        max_size=20,
    )
)
def test_other_scores_are_compared_by_all_flips_of_clusters_signs(rows):
    rows.append((Fraction(1, 3), Fraction(2, 3), "a"))
    comparison = compared(
        [(float(first), float(second)) for first, second, _ in rows], [video for *_, video in rows]
    )
    sums = {
        video: sum(first - second for first, second, name in rows if name == video)
        for *_, video in rows
    }
    assert (comparison.test, comparison.questions, comparison.clusters) == (
        "permutation",
        len(rows),
        len(sums),
    )
    assert comparison.p_value == pytest.approx(float(slow_sign_flips([*sums.values()])), abs=1e-12)
    assert comparison.difference == pytest.approx(float(sum(sums.values()) / len(rows)))
    assert (comparison.low is None) == (len(sums) < 10)


def test_random_flips_come_close_to_all_flips():
    source = random.Random(3)
    differences = [source.gauss(0.2, 1) for _ in range(EXACT_UP_TO + 3)]
    totals = np.array([*flips(len(differences))]) @ differences
    exact = np.mean(np.abs(totals) >= abs(sum(differences)) - 1e-9)
    assert 0.02 < exact < 0.5
    assert compared([(difference, 0.0) for difference in differences]).p_value == pytest.approx(
        exact, abs=0.02
    )


def test_scores_of_many_questions():
    source = random.Random(0)
    comparison = compared([(source.random(), 0.4) for _ in range(1100)])
    assert (comparison.test, comparison.clusters, comparison.p_value) == (
        "permutation",
        1100,
        2 / (PERMUTATIONS + 1),
    )


def test_runs_of_equal_means_do_not_differ():
    assert compared([(0.2, 0), (0.5, 0), (0, 0.2), (0, 0.5)]).p_value == 1


def test_both_tests_agree_on_single_questions():
    pairs = [(1, 0)] * 9 + [(0, 1)] * 2 + [(1, 1)] * 5
    mcnemar, permutation = (
        compared(pairs),
        compared([(first / 2, second / 2) for first, second in pairs]),
    )
    assert (mcnemar.test, permutation.test) == ("McNemar", "permutation")
    assert permutation.p_value == pytest.approx(mcnemar.p_value)


def test_the_interval_of_a_difference_is_that_of_the_paired_differences():
    values, clusters = clustered(30)
    comparison = compared([(value, 1.5) for value in values], clusters)
    assert (comparison.low, comparison.high) == bootstrap_interval(
        [value - 1.5 for value in values], clusters
    )


@pytest.mark.parametrize("scale", [1, 0.7])
def test_swapped_runs_change_only_the_signs(scale):
    source = random.Random(0)
    pairs = [(scale * source.randint(0, 1), scale * source.randint(0, 1)) for _ in range(90)]
    clusters = [source.choice("abcdefghijklmnopqrstuvwxyz") for _ in pairs]
    direct, swapped = (
        compared(pairs, clusters),
        compared([(second, first) for first, second in pairs], clusters),
    )
    ends = (-direct.high, -direct.low)
    assert (swapped.difference, swapped.low, swapped.high) == pytest.approx(
        (-direct.difference, *ends)
    )
    assert swapped.p_value == direct.p_value


@pytest.mark.parametrize("score", [1, 0.3])
def test_equal_runs_do_not_differ(score):
    comparison = compared([(score, score)] * 12)
    assert (comparison.difference, comparison.low, comparison.high, comparison.p_value) == (
        0,
        0,
        0,
        1,
    )


def test_only_common_questions_are_compared():
    first = {"q1": 1.0, "q2": 0.0, "q3": None, "q4": math.nan, "q5": 1.0}
    second = {"q6": 1.0, "q5": 0.0, "q4": 1.0, "q3": 1.0, "q1": 1.0, "q2": 0.0}
    clusters = {"q1": "a", "q2": "b", "q5": "b"}
    comparison = compare(first, second, clusters)
    assert (comparison.questions, comparison.clusters, comparison.difference) == (
        3,
        2,
        pytest.approx(1 / 3),
    )
    assert compare(first, {"q6": 1.0, "q3": 1.0}, clusters) is None
    assert compare({}, {}, clusters) is None
    with pytest.raises(ValueError, match="2 questions have no cluster, such as 'q1'"):
        compare(first, second, {"q5": "b"})


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5, 0.5]) == [1.0, 1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5))
def test_holm_is_the_largest_bonferroni_correction_over_all_families(per_cent):
    p_values = [number / 100 for number in per_cent]
    families = [
        [index for index in range(len(p_values)) if bits >> index & 1]
        for bits in range(1, 2 ** len(p_values))
    ]
    for index, corrected in enumerate(holm(p_values)):
        within = [[p_values[other] for other in family] for family in families if index in family]
        assert corrected == pytest.approx(
            min(1.0, max(len(family) * min(family) for family in within))
        )


def test_holm_is_that_of_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    source = random.Random(0)
    for count in (1, 2, 6, 28):
        p_values = [round(source.random() ** 3, 2) for _ in range(count)]
        assert holm(p_values) == pytest.approx(
            [*multitest.multipletests(p_values, method="holm")[1]]
        )


@pytest.mark.parametrize("wrong", [math.nan, -0.1, 1.1])
def test_an_invalid_p_value_is_an_error(wrong):
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm([0.5, wrong])


def strata():
    """Return strata of several sizes. The largest has the highest level, to test the weights."""
    source = random.Random(0)
    return [
        [source.gauss(level, 1) for _ in range(size)] for level, size in ((0, 5), (2, 11), (9, 60))
    ]


def test_interval_is_that_of_a_slow_bootstrap_within_strata():
    source = random.Random(1)
    means = [
        fmean(fmean(source.choices(stratum, k=len(stratum))) for stratum in strata())
        for _ in range(4000)
    ]
    low, high = np.percentile(means, (2.5, 97.5))
    interval = stratified_interval(strata())
    assert interval == pytest.approx((low, high), abs=0.1 * (high - low))
    together = [value for stratum in strata() for value in stratum]
    pooled = bootstrap_interval(together, [str(index) for index in range(len(together))])
    assert interval[1] < pooled[0]


def test_the_same_seed_gives_the_same_interval(monkeypatch):
    interval = stratified_interval(strata())
    assert stratified_interval(strata()) == interval
    monkeypatch.setattr(intervals, "_SEED", 1)
    assert stratified_interval(strata()) != interval


def test_a_single_stratum_has_the_interval_of_its_mean():
    (_, values, _) = strata()
    low, high = bootstrap_interval(values, [*"abcdefghijk"])
    assert stratified_interval([values]) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_strata_without_spread_have_an_interval_without_width():
    assert stratified_interval([[0.2] * 3, [0.8] * 40]) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(
    "few", [[], [[]], [[1.0]], [[1.0, 0.0], [1.0]], [[1.0, 0.0], []], [[1.0, 0.0, 0.0], [1.0] * 6]]
)
def test_a_stratum_with_one_value_or_few_values_in_total_have_no_interval(few):
    assert stratified_interval(few) is None
    assert stratified_score_interval(few, 1) is None
