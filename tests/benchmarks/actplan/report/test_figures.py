"""ActPlan-1K's figures show what its tables say."""

import pytest

from benchmarks.actplan.report.synthetic_runs import GOOD, MUTE, PART, TEXT, WEAK
from lmms_egoplan.benchmarks.actplan.report import ActPlanReport
from lmms_egoplan.report.runs import read_runs
from report.joined import near, run_rows


def test_figures_show_the_numbers_of_the_tables(section):
    figures = {figure.key: figure for figure in section.figures}
    lengths, types = run_rows(section, "actplan_by_length"), run_rows(section, "actplan_by_activity_type")
    for key, column, scale in (
        ("actplan_by_length", "lcs_norm", 1),
        ("actplan_correct_by_length", "bleurt_correct", 100),
    ):
        (axes,) = figures[key].draw().axes
        for drawn in (line for line in axes.lines if line.get_label()[0] != "_"):
            own = [row[column] for row in lengths if row["model"] == drawn.get_label()]
            values = [value / scale for value in own if value is not None]
            assert list(drawn.get_ydata()) == near(values)
        names = {line.get_label() for line in axes.lines}
        assert (WEAK in names) == (scale == 1)
    (axes,) = figures["actplan_by_activity_type"].draw().axes
    bars = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    for name in (GOOD, TEXT, WEAK, MUTE, PART):
        assert bars[name] == near([row["lcs_norm"] for row in types if row["model"] == name])
    (axes,) = figures["actplan_by_setting"].draw().axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["normal", "counterfactual"]
    heights = [f"{bar.get_height():.2f}" for bars in axes.containers for bar in bars if bar.get_height()]
    assert set(heights) <= {text.get_text() for text in axes.texts}
    assert axes.get_ylabel() == "normalised LCS, 0 to 1"


@pytest.mark.parametrize(
    ("key", "low", "high", "scale", "least"),
    [
        ("actplan_by_length", "low", "high", 1, 6),
        ("actplan_correct_by_length", "correct_low", "correct_high", 100, 6),
        ("actplan_by_activity_type", "low", "high", 1, 0),  # of fewer than 10 activities each
    ],
)
def test_figures_show_the_intervals_of_the_tables(section, key, low, high, scale, least):
    (figure,) = (figure for figure in section.figures if figure.key == key)
    table = key.replace("_correct", "")
    expected = sorted((row[low] / scale, row[high] / scale) for row in run_rows(section, table) if row[low] is not None)
    (axes,) = figure.draw().axes
    drawn = sorted(tuple(segment[:, 1]) for lines in axes.collections for segment in lines.get_segments())
    assert len(drawn) == len(expected) >= least
    assert all(ends == near(told) for ends, told in zip(drawn, expected, strict=True))


def test_figures_tell_runs_apart_without_colour(section):
    for figure in section.figures:
        (axes,) = figure.draw().axes
        signs = [(line.get_marker(), line.get_linestyle()) for line in axes.lines if line.get_label()[0] != "_"]
        signs += [bars[0].get_hatch() for bars in axes.containers]
        assert len(set(signs)) == len(signs) >= 3
        assert GOOD in figure.description


def test_without_a_classifier_there_is_no_figure_of_correctness(written):
    found = ActPlanReport(read_runs([written / "runs" / f"org__{WEAK}"]).runs).section()
    assert [figure.key for figure in found.figures] == [
        "actplan_by_setting", "actplan_by_length", "actplan_by_activity_type",
    ]  # fmt: skip
    assert f"No classifier, and therefore no correctness: {WEAK}." in found.remarks
    titles = {table.key: table.title for table in found.tables}
    assert [titles[f"actplan_table{n}"].partition(":")[0] for n in (3, 5, 6, 7)] == ["Published"] * 4
    assert not any(run_rows(found, f"actplan_table{number}") for number in (3, 5, 6, 7))
