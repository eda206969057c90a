"""Common parts of the report's figures."""

import warnings

import pytest

from lmms_egoplan.report.charts import draw_bars, draw_lines, finish, new_figure
from lmms_egoplan.stats.means import Mean


@pytest.mark.parametrize("draw", [draw_bars, draw_lines])
@pytest.mark.parametrize(
    ("interval", "ends"), [((40, 60), (0, 100)), ((-3, 60), (-3, 100)), ((40, 104), (0, 104))]
)
def test_bars_begin_at_0_and_intervals_beyond_the_scale_are_visible(draw, interval, ends):
    arguments = ["by"] if draw is draw_lines else []
    (axes,) = draw(["a"], {"run": [Mean(50.0, interval, 9, 9)]}, "score", *arguments, 100).axes
    assert axes.get_ylim() == ends


def test_the_legend_includes_runs_with_a_leading_underscore(tmp_path):
    figure, axes = new_figure(5, 3)
    axes.bar([0, 1], [1, 2], label="_bars")
    axes.plot([0, 1], [1, 2], label="__line")
    axes.errorbar([0, 1], [1, 2], [0.1, 0.1], label="_errors")
    axes.scatter([0], [1], label="plain")
    axes.plot([0, 1], [1, 2])
    axes.axvspan(0, 1)
    axes.hist([1, 2])
    finish(axes)
    (legend,) = figure.legends
    labels = {text.get_text().lstrip("\u200b") for text in legend.get_texts()}
    assert labels == {"_bars", "__line", "_errors", "plain"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(tmp_path / "figure.png")


def test_figures_without_labels_have_no_legend():
    figure, axes = new_figure(5, 3)
    axes.bar([0, 1], [1, 2])
    axes.plot([0, 1], [1, 2])
    finish(axes)
    assert figure.legends == []
