"""Compact runs: the drawn videos, the planned widths, and the interval, against slow references."""

import random
from collections import Counter
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import t

from lmms_egoplan.benchmarks.subset import designs_of, draw, planned_widths
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.statistics import bootstrap_interval


def questions(count=120, seed=0):
    """Return questions of videos of skewed sizes, of two sources, with progress of 0 to 9 actions."""
    rng = random.Random(seed)
    rows = []
    for video in range(count):
        source, length = rng.choice(["Ego4D", "EpicKitchens", "EpicKitchens"]), rng.randrange(10)
        rows += [(f"video {video}", source, length)] * max(1, round(rng.lognormvariate(2, 0.8)))
    return rows


def test_whole_videos_are_drawn_whatever_the_order_and_larger_subsets_contain_smaller_ones():
    rows = questions()
    sizes = Counter(video for video, *_ in rows)
    earlier = []
    for wanted in (1, 50, 100, 300, 700, 10**6):
        videos, design = draw(rows, "data", str(wanted))
        assert (videos, design) == draw(random.Random(wanted).sample(rows, len(rows)), "data", str(wanted))
        assert videos[: len(earlier)] == earlier
        asked = sum(sizes[video] for video in videos)
        assert (design["drawn"], design["asked"], design["videos"], design["of"]) == (
            *(len(videos), asked),
            *(len(sizes), len(rows)),
        )
        assert asked <= wanted or len(videos) == 1
        earlier = videos
    assert design["asked"] == len(rows)
    assert draw(rows, "other data", "300")[0] != draw(rows, "data", "300")[0]


def test_each_stratum_has_its_share():
    rows = [(f"video {video}", ("A", "B", "B")[video % 3], video // 3) for video in range(240)] * 4
    drawn = [int(name.split()[1]) for name in draw(rows, "data", "240")[0]]
    counts = Counter((("A", "B", "B")[video % 3], video // 81) for video in drawn)
    assert len(drawn) == 60
    assert counts.keys() == {(label, third) for label in "AB" for third in range(3)}
    for (label, _), count in counts.items():
        assert count == pytest.approx(6.7 if label == "A" else 13.3, abs=2)


def test_each_video_is_drawn_equally_often():
    rows = questions(45)
    draws = Counter(video for seed in range(1000) for video in draw(rows, str(seed), "10000")[0][:15])
    assert len(draws) == 45
    for count in draws.values():
        assert count == pytest.approx(1000 / 3, abs=50)


def test_a_width_takes_the_smallest_number_of_videos_that_is_planned_for_it():
    rows = questions()
    for width in (2, 10, 30.5):
        videos, design = draw(rows, "data", f"width={width}")
        assert design["width"] <= width
        sizes = np.array([*Counter(video for video, *_ in rows).values()])
        assert planned_widths(sizes)[len(videos) - 2] > width
    assert (np.diff(planned_widths(sizes)) <= 0).all()


@pytest.mark.parametrize("wanted", ["0", "-3", "many", "width=0", "width=", "width=-1", "2.5", "size=3", "width=nan"])
def test_other_values_are_refused(wanted):
    with pytest.raises(LmmsEgoplanError, match=r"LMMS_EGOPLAN_SUBSET=.*number of questions"):
        draw(questions(20), "data", wanted)


def test_benchmarks_without_videos_are_refused():
    with pytest.raises(LmmsEgoplanError, match=r"egothink.*egoplan"):
        designs_of("egothink", "existence", "100")
    assert designs_of("egothink", "existence") == {}


def slow_interval(values, clusters, design):
    """Return the interval of the definition, with loops."""
    groups = sorted(set(clusters))
    mean = fmean(values)
    changes = []
    for group in groups:
        rest = [value for value, cluster in zip(values, clusters, strict=True) if cluster != group]
        changes.append(fmean(rest) - mean)
    sizes = [clusters.count(group) for group in groups]
    drawn, unseen = design["drawn"], 1 - design["drawn"] / design["videos"]
    # Drawn videos without a question of a slice change nothing.
    changes += [0.0] * (drawn - len(groups))
    variance = unseen * drawn / (drawn - 1) * sum((change - fmean(changes)) ** 2 for change in changes)
    spread = fmean(size**2 for size in sizes) / fmean(sizes) ** 2
    variance *= max(1, design["spread"] / spread)
    share = mean / 100
    answers = share * (1 - share) / (variance / 100**2) if variance and 0 < share < 1 else len(groups) / unseen
    quantile = t.ppf(0.975, max(1, len(groups) / spread - 1))
    # The ends of Wilson's interval are the shares that a test with this quantile does not reject.
    roots = np.roots([1 + quantile**2 / answers, -(2 * share + quantile**2 / answers), share**2])
    return tuple(100 * root for root in sorted(roots))


@pytest.mark.parametrize("accuracy", [0, 0.3, 0.9, 1])
@pytest.mark.parametrize("extra", [0, 3])
def test_interval_equals_the_slow_one(accuracy, extra):
    rng = np.random.default_rng(1)
    clusters = [f"video {video}" for video in range(12) for _ in range(1 + video % 5)]
    values = 100.0 * (rng.random(len(clusters)) < accuracy)
    design = {"videos": 80, "drawn": 12 + extra, "spread": 1.4, "asked": 0, "of": 0, "width": 0}
    expected = slow_interval(values.tolist(), clusters, design)
    assert bootstrap_interval(values, clusters, design) == pytest.approx(expected, abs=1e-6)


def test_interval_is_a_point_if_all_videos_are_drawn_and_missing_for_few():
    values, clusters = [100.0, 0.0] * 6, [f"video {video}" for video in range(6) for _ in range(2)]
    design = {"videos": 6, "drawn": 6, "spread": 1.0}
    values[0] = 0.0
    low, high = bootstrap_interval(values, clusters, design)
    assert low == pytest.approx(fmean(values), abs=0.01)
    assert high == pytest.approx(fmean(values), abs=0.01)
    assert bootstrap_interval(values[:8], clusters[:8], design | {"drawn": 4, "videos": 60}) is None
    assert bootstrap_interval([100.0], ["video 1"], design | {"drawn": 1, "videos": 60}) is None
