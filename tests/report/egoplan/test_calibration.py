"""Tables and figures of calibration, with the measures of the same answers."""

import json
import math
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import t as student_t

from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.report.egoplan.report import EgoPlanReport
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from lmms_egoplan.stats.calibration import (
    brier_score,
    calibration_error,
    choices,
    conformal_sets,
    cross_fitted,
    fit_temperature,
    reliability,
)
from report.egoplan.synthetic_runs import ANSWERS, DOCS, run_of, task_of
from report.joined import figure, near, run_rows
from report.synthetic import write_run

pytestmark = pytest.mark.usefixtures("small")
RANKED = [
    name for name in ANSWERS if task_of(name) not in ("egoplan_val_generate", "egoplan_val_blind")
]


def arrays(name):
    """Return scores, right choices, videos and ids of the questions whose choices all have finite
    scores.
    """
    rows = [
        (
            [-json.loads(text)["loss"] for text in response],
            "ABCD".index(doc["golden_choice_idx"]),
            doc["video_id"],
        )
        for doc, response in zip(DOCS, ANSWERS[name].responses, strict=True)
    ]
    usable = [row for row in rows if np.isfinite(row[0]).all()]
    excluded = [
        str(doc["sample_id"]) for doc, row in zip(DOCS, rows, strict=True) if row not in usable
    ]
    scores, gold, videos = zip(*usable, strict=True)
    return np.array(scores), np.array(gold), list(videos), excluded


def test_each_ranked_task_has_its_measures(section):
    rows = {
        (row["run"], row["task"], row["kind"]): row
        for row in run_rows(section, "egoplan_calibration")
    }
    assert rows.keys() == {
        (run_of(name), task_of(name), kind) for name in RANKED for kind in ("as is", "fitted")
    }
    for name in RANKED:
        scores, gold, videos, excluded = arrays(name)
        fitted = fit_temperature(scores, gold), cross_fitted(scores, gold, videos)
        for kind, (temperature, each) in {"as is": (1, 1.0), "fitted": fitted}.items():
            row = rows[run_of(name), task_of(name), kind]
            error = calibration_error(*choices(scores, gold, each), videos)
            brier = brier_score(scores, gold, each, videos)
            assert row["temperature"] == near(temperature)
            assert (row["ece"], row["ece_low"]) == near(
                (100 * error.value, 100 * error.interval[0])
            )
            assert (row["brier"], row["brier_low"], row["brier_high"]) == near(
                (brier.value, *brier.interval)
            )
            assert (row["questions"], row["excluded"]) == (len(gold), len(excluded))
            assert row["videos"] == len(set(videos))
            assert (
                row["ids"] is None
                if not excluded
                else row["ids"].startswith(", ".join(excluded[:5]))
            )


def test_sets_at_three_levels(section):
    rows = run_rows(section, "egoplan_prediction_sets")
    assert len(rows) == 3 * len(RANKED)
    for row in rows:
        (name,) = (
            name for name in RANKED if (run_of(name), task_of(name)) == (row["run"], row["task"])
        )
        sets = conformal_sets(*arrays(name)[:3], row["level"] / 100)
        assert {key: row[key] for key in sets} == near(sets)


def test_the_figure_has_the_points_of_the_table_with_a_band(tmp_path, bert):
    tasks = {"egoplan_val": egoplan_answers(300, 0.5), "egoplan_val_blind": egoplan_answers(300, 0)}
    write_run(tmp_path, "lmms-eval", "org/Small", tasks)
    section = build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)))
    points = run_rows(section, "egoplan_reliability")
    rows = [row for row in points if row["kind"] == "as is"]
    assert sum(row["questions"] for row in rows) == 300
    assert {row["kind"] for row in points} == {"as is", "fitted"}
    panels = {
        axes.get_title().partition("\n")[0]: axes
        for axes in figure(section, "egoplan_reliability").draw().axes
    }
    assert panels.keys() == {"Small"}
    (line,) = (line for line in panels["Small"].get_lines() if line.get_marker() != "None")
    assert list(line.get_xdata()) == [row["confidence"] for row in rows]
    assert list(line.get_ydata()) == [row["right"] for row in rows]
    (band,) = panels["Small"].collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.round(6).tolist()}
    for row in rows:
        for end in ("low", "high"):
            assert (round(row["confidence"], 6), round(row[end], 6)) in corners


def slow_wilson(shares_by_video):
    """Return the interval of the mean of shares by Wilson, from loops over videos.

    See docs/intervals.md.
    """
    shares = [share for video in shares_by_video for share in video]
    count, mean = len(shares_by_video), fmean(shares)
    changes = []
    for left_out in range(count):
        rest = [
            share
            for number, video in enumerate(shares_by_video)
            for share in video
            if number != left_out
        ]
        changes.append(fmean(rest) - mean)
    deviations = [change - fmean(changes) for change in changes]
    squares = sum(deviation**2 for deviation in deviations)
    variance = count / (count - 1) * squares
    effective = len(shares) ** 2 / sum(len(video) ** 2 for video in shares_by_video)
    spread = sum(deviation**4 for deviation in deviations) - squares**2 / count
    freedom = 2 * squares**2 / spread if spread > 1e-12 * squares**2 else math.inf
    freedom = min(max(freedom, max(1, effective / 4)), count - 1)
    binomial = mean * (1 - mean)
    answers = binomial / variance if binomial > 1e-12 and variance > 0 else effective
    loss = student_t.ppf(0.975, freedom) ** 2 / answers
    roots = np.roots([1 + loss, -(2 * mean + loss), mean**2])
    return sorted(100 * float(root.real) for root in roots)


def test_bands_are_intervals_over_the_videos_of_each_point():
    random = np.random.default_rng(5)
    confidence = random.uniform(0.25, 1, 400)
    is_right = random.random(400) < confidence**3
    videos = [f"video {number}" for number in random.integers(0, 60, 400)]
    points = reliability(confidence, is_right, videos)
    order = sorted(range(400), key=lambda number: -confidence[number])
    assert len(points) == 10
    for number, point in enumerate(points):
        by_video = {}
        for question in order[40 * number : 40 * number + 40]:
            by_video.setdefault(videos[question], []).append(float(is_right[question]))
        assert point["right"] == near(100 * fmean(x for video in by_video.values() for x in video))
        ends = slow_wilson([*by_video.values()])
        assert (point["low"], point["high"]) == pytest.approx(tuple(ends), abs=1e-6)


@pytest.mark.parametrize(
    ("questions", "reason"),
    [(60, "9 videos, fewer than 10"), (91, "91 questions, fewer than 100")],
)
def test_few_questions_or_videos_have_a_reason_instead_of_a_diagram(
    tmp_path, bert, questions, reason
):
    answers = egoplan_answers(questions, 0.5)
    write_run(tmp_path, "lmms-eval", "org/Few", {"egoplan_val": answers})
    report_section = build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)))
    row = run_rows(report_section, "egoplan_calibration")[0]
    assert (row["ece"] is None) == (row["videos"] < 10) == ("9 videos" in str(row["no_value"]))
    assert f"No reliability diagram: Few ({reason})." in report_section.remarks
    keys = {part.key for part in (*report_section.figures, *report_section.tables)}
    assert "egoplan_reliability" not in keys
