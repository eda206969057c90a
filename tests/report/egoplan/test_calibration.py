"""Tables and figures of calibration, with the measures of the same answers."""

import json

import numpy as np
import pytest

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


def test_the_figure_has_the_points_of_the_table(section):
    points = [
        row
        for row in run_rows(section, "egoplan_reliability")
        if (row["run"], row["task"]) == ("Small", "egoplan_val")
    ]
    for kind in ("as is", "fitted"):
        rows = [row for row in points if row["kind"] == kind]
        assert sum(row["questions"] for row in rows) == len(arrays("Small")[1])
        (axes,) = figure(section, "egoplan_reliability").draw().axes
        lines = [line for line in axes.get_lines() if line.get_label().startswith(f"Small, {kind}")]
        assert [list(line.get_xdata()) for line in lines] == [[row["confidence"] for row in rows]]
        assert [list(line.get_ydata()) for line in lines] == [[row["right"] for row in rows]]
        assert not any("blind" in line.get_label() for line in axes.get_lines())


def test_few_videos_have_a_reason_instead_of_values(tmp_path, bert):
    write_run(tmp_path, "lmms-eval", "org/Few", {"egoplan_val": egoplan_answers(60, 0.5)})
    report_section = build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)))
    (row,) = run_rows(report_section, "egoplan_calibration")
    assert (row["ece"], row["videos"]) == (None, 9)
    assert "9 videos" in row["no_value"]
    assert not [x for x in report_section.figures if "reliability" in x.key]
