"""Compact runs: the drawn questions, planned widths and interval, against slow references."""

import json
import random
from collections import Counter
from statistics import fmean

import numpy as np
import pytest

from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.subset import designs_of, draw, planned_widths
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.stats.intervals import score_interval
from report.answers import Answers
from report.synthetic import write_run
from stats.slow_wilson import slow_wilson


def questions(count=120, seed=0):
    """Return ids of questions of videos of skewed sizes; an id begins with the video's number."""
    rng = random.Random(seed)
    ids = []
    for video in range(count):
        ids += [f"{video} {number}" for number in range(max(1, round(rng.lognormvariate(2, 0.8))))]
    return ids


def video_of(question):
    return question.partition(" ")[0]


def test_questions_are_drawn_whatever_their_order_and_larger_subsets_contain_smaller_ones():
    ids = questions()
    earlier = []
    for wanted in (1, 50, 100, 300, 700, 10**6):
        drawn, design = draw(ids, "data", str(wanted))
        assert (drawn, design) == draw(
            random.Random(wanted).sample(ids, len(ids)), "data", str(wanted)
        )
        assert drawn[: len(earlier)] == earlier
        assert (
            (design["asked"], design["of"])
            == (min(wanted, len(ids)), len(ids))
            == (len({*drawn}), len(ids))
        )
        earlier = drawn
    assert {*drawn} == {*ids}
    assert draw(ids, "other data", "300")[0] != draw(ids, "data", "300")[0]


def test_a_missing_video_changes_only_its_own_questions():
    ids = questions()
    whole, _ = draw(ids, "data", "300")
    for missing in random.Random(0).sample([*{video_of(id_) for id_ in ids}], 40):
        rest, _ = draw([id_ for id_ in ids if video_of(id_) != missing], "data", "300")
        kept = [id_ for id_ in whole if video_of(id_) != missing]
        assert rest[: len(kept)] == kept
        assert len(rest) == 300


def test_each_question_is_drawn_equally_often_whatever_the_size_of_its_video():
    ids = questions(20)
    draws = Counter(id_ for seed in range(1000) for id_ in draw(ids, str(seed), "50")[0])
    expected = 1000 * 50 / len(ids)
    errors = [(draws[id_] - expected) / np.sqrt(expected * (1 - 50 / len(ids))) for id_ in ids]
    assert max(map(abs, errors)) < 4.5
    sizes = Counter(map(video_of, ids))
    largest = max(sizes, key=sizes.__getitem__)
    share = fmean(draws[id_] for id_ in ids if video_of(id_) == largest) / 1000
    assert share == pytest.approx(50 / len(ids), rel=0.05)


def test_the_estimate_has_no_bias_where_the_accuracy_depends_on_the_size_of_the_video():
    """The largest video has more questions than are asked, and nearly all are wrong."""
    ids = questions(60) + [f"large {number}" for number in range(250)]
    right = {id_: video_of(id_) != "large" for id_ in ids}
    estimates = [
        100 * fmean(right[id_] for id_ in draw(ids, str(seed), "100")[0]) for seed in range(1000)
    ]
    bias = fmean(estimates) - 100 * fmean(right.values())
    assert abs(bias) < 3 * np.std(estimates) / np.sqrt(1000) < 0.5


def test_a_width_takes_the_smallest_number_of_questions_that_is_planned_for_it():
    ids = questions()
    for width in (2, 10, 30.5):
        drawn, design = draw(ids, "data", f"width={width}")
        assert design["width"] <= width < planned_widths(len(ids))[len(drawn) - 2]
    assert (np.diff(planned_widths(len(ids))) <= 0).all()
    assert planned_widths(1).tolist() == [0]


def test_planned_widths_are_those_of_half_right_answers():
    for asked in (10, 100, 300):
        low, high = score_interval(
            [0.0, 100.0] * (asked // 2), range(asked), 100, {"asked": asked, "of": 1000}
        )
        assert high - low == pytest.approx(planned_widths(1000)[asked - 1])


@pytest.mark.parametrize(
    "wanted", ["0", "-3", "many", "width=0", "width=", "width=-1", "2.5", "size=3", "width=nan"]
)
def test_other_values_are_refused(wanted):
    with pytest.raises(LmmsEgoplanError, match=r"LMMS_EGOPLAN_SUBSET=.*number of questions"):
        draw(questions(20), "data", wanted)


@pytest.mark.parametrize("wanted", ["5", "width=5"])
def test_data_without_questions_are_refused(wanted):
    with pytest.raises(LmmsEgoplanError, match=r"LMMS_EGOPLAN_SUBSET=.*egointent"):
        draw([], "egointent", wanted)


def test_benchmarks_without_videos_are_refused():
    with pytest.raises(LmmsEgoplanError, match=r"egothink.*egoplan"):
        designs_of("egothink", "existence", "100")
    assert designs_of("egothink", "existence") == {}


@pytest.mark.parametrize("accuracy", [0, 0.3, 0.9, 1])
def test_the_interval_is_that_of_single_questions_from_a_finite_number(accuracy):
    rng = np.random.default_rng(1)
    values = 100.0 * (rng.random(40) < accuracy)
    design = {"asked": 40, "of": 160, "width": 0}
    expected = slow_wilson([[value] for value in values], fmean, top=100, asked=0.25)
    assert score_interval(values, ["one video"] * 40, 100, design) == pytest.approx(
        expected, abs=1e-6
    )


def test_questions_without_a_score_count_as_not_asked():
    values, names = [100.0, 0.0] * 6, [*range(20)]
    expected = score_interval(values, names[:12], 100, {"asked": 12, "of": 21})
    assert score_interval(
        [*values, *[None] * 8], names, 100, {"asked": 20, "of": 21}
    ) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("task", "answers"),
    [("egoplan_val", egoplan_answers(12, 0.5)), ("egointent", egointent_answers(12, 60))],
)
def test_a_run_of_part_of_the_drawn_questions_has_the_interval_of_that_part(
    tmp_path, task, answers
):
    """And a run of few questions names them, not their videos, as the reason for no interval."""

    def headline(name, count, design):
        part = Answers(answers.docs[:count], answers.responses[:count])
        path = write_run(tmp_path / name, "lmms-eval", "org/m", {task: part})
        (samples,) = path.parent.glob("*.jsonl")
        lines = [json.loads(line) for line in samples.read_text().splitlines()]
        for line in lines:
            line["coverage"]["subset"] = design
        samples.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        runs = read_runs([tmp_path / name]).runs
        (benchmark,) = (
            benchmark for benchmark in BENCHMARKS if benchmark.name == task.partition("_")[0]
        )
        return report_class(benchmark.name)(runs).headlines[0], runs[0].tasks[task].subset

    whole, text = headline("whole", 12, {"asked": 12, "of": 60, "width": 5.0})
    limited, same_text = headline("limited", 12, {"asked": 50, "of": 60, "width": 5.0})
    assert limited.interval == whole.interval
    assert text == same_text == "estimate from 12 of 60 questions"
    few, _ = headline("few", 9, {"asked": 9, "of": 60, "width": 5.0})
    assert (few.interval, few.no_interval) == (None, "9 questions, fewer than 10")


def test_the_interval_is_a_point_if_all_questions_are_asked_and_missing_for_few():
    values = [100.0, 0.0, 0.0] * 4
    low, high = score_interval(values, [*range(12)], 100, {"asked": 12, "of": 12})
    assert (low, high) == pytest.approx((fmean(values), fmean(values)), abs=0.01)
    assert score_interval(values[:9], [*range(9)], 100, {"asked": 9, "of": 60}) is None
