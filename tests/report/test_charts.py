"""Common parts of the report's figures."""

import warnings
from functools import partial

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from lmms_egoplan.report.charts import (
    COLUMN,
    SMALLEST,
    finish,
    looks_of,
    model_colours,
    new_figure,
)
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egointent.heatmap import Cell, Heatmap
from lmms_egoplan.report.egointent.heatmap import draw as draw_heatmap
from lmms_egoplan.report.egoplan.calibration import draw_reliability
from lmms_egoplan.report.plots import draw_bars, draw_lines, draw_points
from lmms_egoplan.report.spec import Inputs
from lmms_egoplan.stats.means import Mean

LONG = "lmms-lab/llava-onevision-qwen2-7b-ov-chat-finetuned-on-egoplan-it-checkpoint-"
KINDS = {
    "usual": Mean(50.0, (40.0, 61.5), 200, 60),
    "nothing right": Mean(0.0, (0.0, 28.8), 12, 12),
    "all right": Mean(100.0, (71.2, 100.0), 3355, 400),
    "one question": Mean(100.0, None, 1, 1),
    "unknown": Mean(),
}


def flaws_of(name, drawing):
    """Yield what is too small, too wide, or cut off in a figure."""
    width, height = drawing.get_size_inches()
    if width != COLUMN:
        yield f"{name}: {width} inches wide"
    drawing.draw_without_rendering()
    box = drawing.get_tightbbox()
    if min(box.x0, box.y0, width - box.x1, height - box.y1) < -0.01:
        yield f"{name}: its parts end at {box.extents.round(2)} of {width} by {height:.2f} inches"
    for text in drawing.findobj(Text):
        if text.get_text() and text.get_visible() and text.get_fontsize() < SMALLEST:
            yield f"{name}: text of {text.get_fontsize()} points: {text.get_text()}"


def synthetic_drawings():
    """Yield figures of 1 to 12 models with long names and scores at the ends of the scale."""
    for size in (1, 2, 6, 12):
        names = [f"CAPITALS {n}" if n % 3 else f"{LONG}{n}" for n in range(size)]
        looks = looks_of({name: name for name in names}, names)
        means = {name: [*KINDS.values()] for name in names}
        points = ([*KINDS], means, looks, "score, 0 to 100", 100, ("X", [9.0] * 5), 1, 25)
        yield f"points, {size}", partial(draw_points, *points)
        lines = ([*KINDS], means, looks, "accuracy, %", "number of past actions", 100, 25)
        yield f"lines, {size}", partial(draw_lines, *lines)
        shares = {name: [mean.value for mean in KINDS.values()] for name in names}
        yield f"bars, {size}", partial(draw_bars, [*KINDS], shares, looks, "of all errors, %")
        cells = tuple(Cell(mean, partial=True) for mean in KINDS.values())
        columns = ("Overall", "Household management, laundry", "a", "b", "c")
        heatmap = Heatmap(tuple(names), columns, (cells,) * size)
        yield f"heat map, {size}", partial(draw_heatmap, heatmap)
        low, high = KINDS["nothing right"].interval
        point = {"confidence": 40.0, "right": 0.0, "low": low, "high": high, "questions": 100}
        panels = {name: [point, point | {"confidence": 99.0}] for name in names}
        yield f"reliability, {size}", partial(draw_reliability, panels, looks)
    unknown = {"A": [Mean()]}
    looks = looks_of({"A": "A"}, ())
    yield "no points", partial(draw_points, ["group"], unknown, looks, "score", 100)
    yield "no lines", partial(draw_lines, ["group"], unknown, looks, "score", "by", 100)


def test_synthetic_figures_are_as_wide_as_a_column_and_nothing_is_cut_or_small():
    flaws = []
    for name, draw in synthetic_drawings():
        flaws += flaws_of(name, draw())
    assert flaws == []


def test_the_figures_of_each_report_are_legible_and_show_numbers_of_questions(any_small):
    flaws = []
    for figure in any_small.section.figures:
        drawing = figure.draw()
        flaws += flaws_of(figure.key, drawing)
        texts = [text.get_text() for text in drawing.findobj(Text)]
        if not any("n = " in text for text in texts):
            flaws.append(f"{figure.key}: no number of questions")
        if not any("interval" in text for text in texts) and not figure.has_cells:
            flaws.append(f"{figure.key}: says nothing of intervals")
    assert flaws == []


def test_a_model_has_the_same_colour_in_all_figures(any_small):
    names = [run.name for run in any_small.runs]
    colours = model_colours(["other", *names])
    inputs = Inputs(any_small.inputs.similarity, models=("other", *names))
    checked = 0
    for figure in any_small.report(any_small.runs, inputs).figures():
        if not isinstance(figure, Figure):
            continue
        for axes in figure.draw().axes:
            for line in axes.get_lines():
                if line.get_label() in names:
                    assert to_hex(line.get_markerfacecolor()) == colours[line.get_label()]
                    checked += 1
    assert checked or any_small.report.SPEC.name == "egointent"


def test_colours_repeat_with_other_signs():
    names = [f"model {number}" for number in range(12)]
    looks = looks_of({name: name for name in names}, names)
    assert {name: look.colour for name, look in looks.items()} == model_colours(names)
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(names)
    assert len({(look.colour, look.hatch) for look in looks.values()}) == len(names)


@pytest.mark.parametrize(
    ("interval", "ends"), [((40, 60), (0, 100)), ((-3, 60), (-3, 100)), ((40, 104), (0, 104))]
)
def test_axes_begin_at_0_and_intervals_beyond_the_scale_are_visible(interval, ends):
    means = {"run": [Mean(50.0, interval, 9, 9)]}
    looks = looks_of({"run": "run"}, ["run"])
    (axes,) = draw_points(["a"], means, looks, "score", 100).axes
    assert axes.get_xlim() == ends
    (axes,) = draw_lines(["a"], means, looks, "score", "by", 100).axes
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
