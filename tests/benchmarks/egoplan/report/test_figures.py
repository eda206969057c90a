"""EgoPlan's figures in the report."""

from dataclasses import replace

import pytest
from matplotlib.text import Text

from benchmarks.egoplan.report.synthetic_runs import ANSWERS, percent, run_of, scores, task_of
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.report.benchmark import Inputs
from lmms_egoplan.report.runs import read_runs
from report.joined import figure, near, run_rows

pytestmark = pytest.mark.usefixtures("small")


def lines(axes, label):
    (found,) = (each for each in axes.get_lines() if each.get_label() == label)
    return found


@pytest.mark.parametrize("key", ["egoplan_past_actions", "egoplan_similarity"])
def test_lines_of_runs_baselines_and_chance(section, key):
    (axes,) = figure(section, key).draw().axes
    labels = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert sorted(labels) == ["Big (lm-eval), blind", "Big (lm-eval), narrated", "Big (lmms-eval)", "Small"]
    styles = {label: lines(axes, label) for label in labels}
    assert {label: each.get_linestyle() for label, each in styles.items()} == {
        "Big (lm-eval), blind": ":",
        "Big (lm-eval), narrated": "--",
        "Big (lmms-eval)": "-",
        "Small": "-",
    }
    markers = {label: each.get_marker() for label, each in styles.items()}
    assert markers["Big (lm-eval), blind"] == markers["Big (lmms-eval)"] != markers["Small"]
    for name, label in (("Small", "Small"), ("Big (lm-eval) (egoplan_val_narrated)", "Big (lm-eval), narrated")):
        told = [
            row["acc"] for row in run_rows(section, key) if (row["run"], row["task"]) == (run_of(name), task_of(name))
        ]
        assert list(styles[label].get_ydata()) == near(told)
    assert any(list(each.get_ydata()) == [25, 25] for each in axes.get_lines())


def test_the_figure_of_all_accuracies(section):
    (axes,) = figure(section, "egoplan_accuracy").draw().axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    points = {each.get_ydata()[0]: each.get_xdata()[0] for each in axes.get_lines() if len(each.get_xdata()) == 1}
    told = {names[place]: acc for place, acc in points.items()}
    assert told["Big (lmms-eval)"] == near(percent(scores("Big (lmms-eval)")))
    assert told["Big (lm-eval), narrated"] == near(percent(scores("Big (lm-eval) (egoplan_val_narrated)")))
    assert len(told) == len(ANSWERS)
    assert [told[name] for name in names] == sorted(told.values(), reverse=True)


def test_names_are_not_formulas(written, bert):
    (run,) = (run for run in read_runs([written / "runs"]).runs if run.name == "Small")
    found = EgoPlanReport([replace(run, name="a$b_c$d")], Inputs(bert)).section()
    for each in found.figures:
        drawing = each.draw()
        drawing.draw_without_rendering()
        texts = [text for text in drawing.findobj(Text) if "a$b_c$d" in text.get_text()]
        assert texts
        assert not any(text.get_parse_math() for text in texts)
