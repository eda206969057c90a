"""Common parts of the report's figures."""

import warnings

from lmms_egoplan.report.charts import finish, new_figure


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
