"""What the report's figures share: sizes, and signs by which runs are told apart without colour."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lmms_egoplan.report.numbers import show
from lmms_egoplan.report.scored import Mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's, without the yellow, which is too light for lines on white.
_SHADES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c")
# Of lines alone: dots and rings take hundreds of kilobytes of a page.
_HATCHES = ("", "///", "xxx", "---", "\\\\\\", "+++", "|||", "//--")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":")
_INK, _GRID = "0.15", "0.88"
# How numbers and words beside points are written.
NOTE: dict[str, Any] = {"textcoords": "offset points", "size": 8, "color": _INK}
_POINTS = 9.0
_SMALL = 8.5
# Width of a character in heads, and of what stands beside a legend's text in characters.
_CHARACTER = 0.56
_SIGN = 6
# Height of a legend's line, in inches.
_LEGEND_LINE = 0.19
# So many bars have their values above them side by side.
_MOST_VALUES = 24
_SLANT = 30
# Matplotlib tells nothing of what has a label with an underscore first, and labels so what was given none.
_NO_LABEL = re.compile(r"_(?:nolegend_|(?:child|container)\d+)")
_UNSEEN = "\u200b"


def new_figure(width_in: float, height_in: float) -> "tuple[Figure, Axes]":
    """A figure of this size in inches, with axes that make room for their labels; 7.2 inches fill the page's column."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained", facecolor="white")
    return figure, figure.add_subplot()


def shade(number: int) -> str:
    """Colour of the run with this number; they repeat, but not together with `hatch` or `marker`."""
    return _SHADES[number % len(_SHADES)]


def hatch(number: int) -> str:
    """Hatch of this run's bars; the first has none."""
    return _HATCHES[number % len(_HATCHES)]


def marker(number: int) -> str:
    """Marker of this run's points."""
    return _MARKERS[number % len(_MARKERS)]


def line(number: int) -> str:
    """Style of this run's lines."""
    return _LINES[number % len(_LINES)]


def draw_bars(
    groups: Sequence[str],
    means: Mapping[str, Sequence[Mean]],
    label: str,
    top: float,
    reference: tuple[str, Sequence[float]] | None = None,
    decimals: int = 0,
) -> "Figure":
    """A bar with its interval for each run in each group, and with its value as far as there is room.

    Args:
        means: by run, in each group.
        label: of the upright axis, which ends at `top`.
        decimals: of the values.
        reference: what a dashed line in each group is, and its values.
    """
    figure, axes = new_figure(7.2, 3.5)
    width = 0.8 / len(means)
    for number, (name, of_run) in enumerate(means.items()):
        middles = [place - 0.4 + width * (number + 0.5) for place in range(len(groups))]
        heights = [mean.value or 0 for mean in of_run]
        axes.bar(middles, heights, width, label=name, color=shade(number), hatch=hatch(number))
        for x, mean in zip(middles, of_run, strict=True):
            if mean.interval:
                axes.vlines(x, *mean.interval, color="black", linewidth=1, zorder=3)
            if mean.value is None:
                axes.text(x, 0.01 * top, "n/a", rotation=90, ha="center", va="bottom", fontsize=7)
            elif len(groups) * len(means) <= _MOST_VALUES:
                end = mean.interval[1] if mean.interval else mean.value
                axes.annotate(show(mean.value, decimals), (x, end), (0, 1), ha="center", va="bottom", **NOTE)
    name, values = reference or ("", ())
    for place, value in enumerate(values):
        ends = place - 0.44, place + 0.44
        axes.hlines(value, *ends, color="white", linewidth=3)
        told = name if place == 0 else None
        axes.hlines(value, *ends, color="black", linewidth=1.5, linestyle="--", label=told)
    axes.set(xlim=(-0.6, len(groups) - 0.4), ylim=(0, top), ylabel=label)
    axes.set_xticks(range(len(groups)), groups)
    finish(axes)
    return figure


def draw_lines(
    groups: Sequence[str],
    means: Mapping[str, Sequence[Mean]],
    label: str,
    groups_label: str,
    top: float,
    looks: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    chance: float | None = None,
) -> "Figure":
    """A line over the groups for each run, with intervals at its points.

    Args:
        means: by run, in each group.
        label, groups_label: of the axes; the upright one ends at `top`.
        looks: how matplotlib is to draw a run's line, where not as the run's place tells.
        chance: marked by a line across.
    """
    figure, axes = new_figure(7.2, 3.4)
    if chance is not None:
        axes.axhline(chance, color=_INK, linewidth=0.8)
        axes.annotate("chance", (1, chance), (3, 0), xycoords=("axes fraction", "data"), va="center", **NOTE)
    step = min(0.08, 0.5 / len(means))
    for number, (name, of_run) in enumerate(means.items()):
        shift = step * (number - (len(means) - 1) / 2)
        there = [(place + shift, mean) for place, mean in enumerate(of_run) if mean.value is not None]
        signs = {"color": shade(number), "marker": marker(number), "linestyle": line(number)}
        look = {"label": name} | looks.get(name, signs | {"markersize": 5, "clip_on": False})
        axes.plot([x for x, _ in there], [mean.value for _, mean in there], **look)
        for x, mean in there:
            if mean.interval:
                axes.vlines(x, *mean.interval, color=look["color"], linewidth=1)
    axes.set_xticks(range(len(groups)), groups)
    axes.set(ylim=(0, top), xlim=(-0.5, len(groups) - 0.5), ylabel=label, xlabel=groups_label)
    finish(axes)
    return figure


def spoken(groups: Sequence[str], means: Mapping[str, Sequence[Mean]], decimals: int) -> str:
    """The values that a figure shows, for those who do not see it."""
    return "; ".join(
        f"{name}: "
        + ", ".join(
            f"{group} {'none' if mean.value is None else format(mean.value, f'.{decimals}f')}"
            for group, mean in zip(groups, of_run, strict=True)
        )
        for name, of_run in means.items()
    )


def finish(axes: "Axes") -> None:
    """Give axes the report's looks, once everything is drawn: quiet frame and grid, dark hatches, sizes.

    What has a label is told in a legend above the axes, for which the figure grows. Names of categories that do not fit
    side by side are slanted. No text is read as a formula: names may have dollar signs.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=_SMALL, color=_INK, labelcolor=_INK)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(fontsize=_POINTS, color=_INK)
    for patch in axes.patches:
        patch.set(edgecolor=_INK, linewidth=0.7)
        patch.set_hatch_linewidth(0.6)
    _slant(axes)
    _tell(axes)
    for text in axes.figure.findobj(lambda artist: hasattr(artist, "set_parse_math")):
        text.set_parse_math(False)


def _characters(axes: "Axes") -> float:
    """How many fit side by side."""
    return axes.figure.get_figwidth() * 72 / (_SMALL * _CHARACTER)


def _slant(axes: "Axes") -> None:
    lines = [line for text in axes.get_xticklabels() for line in text.get_text().split("\n")]
    names = axes.get_xticklabels()
    if len(names) * (max(map(len, lines), default=0) + 1) > 0.9 * _characters(axes):
        for text in names:
            text.set(rotation=_SLANT, horizontalalignment="right", rotation_mode="anchor")


def _tell(axes: "Axes") -> None:
    for artist in (*axes.lines, *axes.patches, *axes.collections, *axes.containers):
        label = str(artist.get_label())
        if label.startswith("_") and not _NO_LABEL.fullmatch(label):
            artist.set_label(_UNSEEN + label)
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        fitting = int(_characters(axes) // (max(map(len, labels)) + _SIGN))
        columns = min(max(fitting, 1), len(labels))
        figure = axes.figure
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * -(-len(labels) // columns))
        figure.legend(
            handles, labels, loc="outside upper left", ncols=columns, frameon=False, fontsize=_SMALL, labelcolor=_INK,
            handlelength=2.6,
        )  # fmt: skip
