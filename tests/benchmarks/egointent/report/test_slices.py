"""Scores, differences and slices in ``report.json``, beside what is counted from the samples, and the tables."""

from statistics import fmean

import numpy as np
import pytest

from benchmarks.egointent.report.synthetic_runs import COUNT, NAMES, records, score
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from report.joined import rows
from report.report_json import attributes, benchmark_of, ends, groups


@pytest.fixture(scope="module")
def benchmark(section, runs):
    return benchmark_of(section, runs)


@pytest.fixture(scope="module")
def graded(written):
    return {name: records(written, run) for run, name in NAMES.items()}


def test_scores_and_their_intervals(benchmark, graded):
    assert {one["run"] for one in benchmark["scores"]} == set(NAMES.values())
    for one in benchmark["scores"]:
        steps = graded[one["run"]]
        assert one["value"] == pytest.approx(score(steps, "overall"))
        assert one["questions"] == len(steps) == COUNT
        # Of a slow bootstrap with other draws.
        videos = sorted({step["video_id"] for step in steps})
        of_video = {video: [step for step in steps if step["video_id"] == video] for video in videos}
        chance = np.random.default_rng(7)
        drawn = [
            score([step for video in chance.choice(videos, len(videos)) for step in of_video[video]], "overall")
            for _ in range(1000)
        ]
        slow = np.percentile(drawn, (2.5, 97.5))
        assert ends(one) == pytest.approx(slow, abs=0.15 * (slow[1] - slow[0]))


def test_differences_are_over_the_steps_whose_ratings_are_whole(benchmark, graded):
    assert len(benchmark["differences"]) == 3
    for pair in benchmark["differences"]:
        both = zip(graded[pair["first"]], graded[pair["second"]], strict=True)
        ratings = [[[step["ratings"][field] for field in FIELDS] for step in steps] for steps in both]
        values = [fmean(one) - fmean(other) for one, other in ratings if None not in (*one, *other)]
        assert pair["value"] == pytest.approx(fmean(values))
        counted = len(values), sum(value > 0 for value in values), sum(value < 0 for value in values)
        assert (pair["questions"], pair["won"], pair["lost"]) == counted
        assert ("judges" in pair["why"]) == ("Third-7B" in (pair["first"], pair["second"]))


@pytest.mark.parametrize("attribute", ["scenario", "environment"])
def test_slices_are_those_of_the_samples(benchmark, section, graded, attribute):
    assert attributes(benchmark) == ["scenario", "environment"]
    found = groups(benchmark, attribute)
    names = {step[attribute] for steps in graded.values() for step in steps}
    assert found.keys() == {(name, run) for name in names for run in NAMES.values()}
    for (name, run), group in found.items():
        steps = [step for step in graded[run] if step[attribute] == name]
        assert group["value"] == pytest.approx(score(steps, "overall"))
        assert group["questions"] == len(steps)
        assert (group["low"] is None) == (len({step["video_id"] for step in steps}) < 10)
    if attribute == "environment":
        shown = {(row["score_of"].lower(), row["model"]): row for row in rows(section, "egointent_scores")}
        for place, group in found.items():
            row = shown[place]
            assert (group["value"], *ends(group)) == pytest.approx((row["score"], row["low"], row["high"]))
