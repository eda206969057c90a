"""Draw scores, counts and shares of models by group, see `charts`."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmms_egoplan.report.charts import (
    COLUMN,
    GRID,
    INK,
    LINE_HEIGHT,
    NOTE,
    Look,
    finish,
    new_figure,
    wrapped,
)
from lmms_egoplan.report.tables import show
from lmms_egoplan.stats.means import Mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# Characters per line of the names of groups, and of labels of axes.
_GROUP_NAME = 17
_LABEL = 38
# Distance of rows in points, with values and without. Rows of large figures have no values.
_ROW_WITH_VALUE = 10.0
_ROW = 6.5
_LEAST_ROW = 5.0
_MOST_VALUES = 24
_MOST_ROWS = 90
_GROUP_GAP = 5.0
_MOST_LINES = 6
# Height of the axis below rows with its ticks, in points.
_AXIS = 18.0


@dataclass(frozen=True)
class _Rows:
    """The rows of a figure with one row for each mean, in points from the top.

    Attributes:
        positions: The middle of the row of each series in each group; None for no row.
        middles: The middle of each group.
        ends: The lower end of each group.
        distance: Distance of rows.
    """

    positions: dict[str, list[float | None]]
    middles: list[float]
    ends: list[float]
    distance: float

    @property
    def has_values(self) -> bool:
        """True if there is room for values next to the rows."""
        return self.distance >= _ROW_WITH_VALUE


def _rows_of(labels: Sequence[str], means: Mapping[str, Sequence[Mean | None]]) -> _Rows:
    """Place a row for each mean.

    Args:
        labels: Names of the groups, as displayed.
        means: Means of each series in the groups; None for no row.
    """
    num_rows = sum(mean is not None for of_series in means.values() for mean in of_series)
    if num_rows <= _MOST_VALUES:
        distance = _ROW_WITH_VALUE
    else:
        distance = _ROW if num_rows <= _MOST_ROWS else _LEAST_ROW
    positions: dict[str, list[float | None]] = {name: [] for name in means}
    middles: list[float] = []
    ends: list[float] = []
    top = 0.0
    for group, label in enumerate(labels):
        present = [name for name in means if means[name][group] is not None]
        height = max(distance * len(present), LINE_HEIGHT * (label.count("\n") + 1)) + _GROUP_GAP
        middle = top + height / 2
        first = middle - distance * (len(present) - 1) / 2
        for name in means:
            is_present = name in present
            position = first + distance * present.index(name) if is_present else None
            positions[name].append(position)
        middles.append(middle)
        top += height
        ends.append(top)
    return _Rows(positions, middles, ends, distance)


def draw_points(
    groups: Sequence[str],
    means: Mapping[str, Sequence[Mean | None]],
    looks: Mapping[str, Look],
    label: str,
    top: float,
    reference: tuple[str, Sequence[float]] | None = None,
    decimals: int = 0,
    chance: float | None = None,
) -> "Drawing":
    """Draw a point with its interval for each series in each group, and its value if there is room.

    Groups are below each other, with their numbers of questions.

    Args:
        groups: names of the groups.
        means: the means of each series in the groups; None for a group that a series does not have.
        looks: the look of each series.
        label: label of the axis.
        top: end of the axis, which begins at 0, unless a value or an interval is beyond it.
        reference: name and values of dashed lines, one in each group.
        decimals: number of decimals of the values.
        chance: score of random answers, marked by a line.
    """
    labels = _with_counts(groups, means, _GROUP_NAME)
    rows = _rows_of(labels, means)
    figure, axes = _new_rows(labels, rows)
    if chance is not None:
        axes.axvline(chance, color=INK, linestyle=":", linewidth=1, label="chance")
    if reference:
        _draw_reference(axes, rows, *reference)
    for name, of_series in means.items():
        positions = rows.positions[name]
        _draw_points(axes, name, of_series, positions, looks[name])
        for mean, y in zip(of_series, positions, strict=True):
            if rows.has_values and mean is not None and mean.value is not None and y is not None:
                _write_value(axes, show(mean.value, decimals), y)
    axes.set(xlim=_limits(means, top), xlabel=_axis_label(label, means))
    finish(axes, "x")
    return figure


def draw_bars(
    groups: Sequence[str],
    numbers: Mapping[str, Sequence[float | None]],
    looks: Mapping[str, Look],
    label: str,
    decimals: int = 0,
) -> "Drawing":
    """Draw a horizontal bar with its value for each series in each group, for counts and shares.

    Args:
        groups: names of the groups.
        numbers: the numbers of each series in the groups, 0 or more.
        looks: the look of each series.
        label: label of the axis.
        decimals: number of decimals of the values.
    """
    labels = [wrapped(group, _GROUP_NAME) for group in groups]
    means = {name: [Mean(number) for number in of_series] for name, of_series in numbers.items()}
    rows = _rows_of(labels, means)
    figure, axes = _new_rows(labels, rows)
    for name, of_series in numbers.items():
        look = looks[name]
        axes.barh(
            [y or 0 for y in rows.positions[name]],
            [number or 0 for number in of_series],
            0.85 * rows.distance,
            label=name,
            color=look.colour,
            hatch=look.hatch,
        )
        for number, y in zip(of_series, rows.positions[name], strict=True):
            if rows.has_values and y is not None:
                _write_value(axes, "n/a" if number is None else show(number, decimals), y)
    low, high = _limits(means, 0)
    axes.set(xlim=(low, high or 1), xlabel=textwrap.fill(label, _LABEL))
    finish(axes, "x")
    return figure


def _new_rows(labels: Sequence[str], rows: _Rows) -> "tuple[Drawing, Axes]":
    """Make a figure for rows, with the names of the groups and a line between them."""
    height = rows.ends[-1] if rows.ends else LINE_HEIGHT
    figure, axes = new_figure(COLUMN, (height + _AXIS + 2 * LINE_HEIGHT) / 72)
    axes.set_yticks(rows.middles, labels)
    axes.set_ylim(height, 0)
    for end in rows.ends[:-1]:
        axes.axhline(end, color=GRID, linewidth=0.8, zorder=0)
    return figure, axes


def _draw_points(
    axes: "Axes",
    name: str,
    means: Sequence[Mean | None],
    positions: Sequence[float | None],
    look: Look,
) -> None:
    """Draw a series of means with their intervals; "n/a" at the start of a row without a value."""
    values = []
    rows = []
    for mean, y in zip(means, positions, strict=True):
        if mean is None or y is None:
            continue
        if mean.value is None:
            axes.annotate("n/a", (0, y), (2, 0), va="center", **NOTE)
            continue
        values.append(mean.value)
        rows.append(y)
        if mean.interval:
            axes.hlines(y, *mean.interval, color=INK, linewidth=0.9)
    axes.plot(
        values,
        rows,
        label=name,
        linestyle="none",
        zorder=3,
        # Matplotlib reserves space for a line without points.
        clip_on=not values,
        **look.of_points(),
    )


def _write_value(axes: "Axes", text: str, y: float) -> None:
    """Write a value at the right end of a row."""
    coordinates = ("axes fraction", "data")
    axes.annotate(text, (1, y), (7, 0), xycoords=coordinates, va="center", **NOTE)


def _draw_reference(axes: "Axes", rows: _Rows, name: str, values: Sequence[float]) -> None:
    """Draw a dashed line in each group. Only the first one has a label, for the legend."""
    starts = [0.0, *rows.ends]
    for group, value in enumerate(values):
        axes.vlines(
            value,
            starts[group] + 1,
            rows.ends[group] - 1,
            color=INK,
            linewidth=1.2,
            linestyle="--",
            label=name if group == 0 else "",
        )


def draw_lines(
    groups: Sequence[str],
    means: Mapping[str, Sequence[Mean]],
    looks: Mapping[str, Look],
    label: str,
    groups_label: str,
    top: float,
    chance: float | None = None,
) -> "Drawing":
    """Draw one line per series over ordered groups, with intervals at its points.

    Many series would hide each other, so they are drawn by `draw_points`.

    Args:
        groups: names of the groups.
        means: the means of each series in the groups.
        looks: the look of each series.
        label, groups_label: labels of the vertical and the horizontal axis.
        top: least upper end of the vertical axis, see `draw_points`.
        chance: score of random answers, marked by a line.
    """
    if len(means) > _MOST_LINES:
        label = f"{label}, by {groups_label}"
        return draw_points(groups, means, looks, label, top, chance=chance)
    figure, axes = new_figure(COLUMN, 2.5)
    if chance is not None:
        axes.axhline(chance, color=INK, linestyle=":", linewidth=1, label="chance")
    # Series are side by side, so that their intervals do not overlap.
    spacing = min(0.08, 0.6 / len(means))
    middle = (len(means) - 1) / 2
    for number, (name, of_series) in enumerate(means.items()):
        _draw_line(axes, name, of_series, looks[name], shift=spacing * (number - middle))
    axes.set_xticks(range(len(groups)), _with_counts(groups, means, _GROUP_NAME))
    axes.set(
        xlim=(-0.5, len(groups) - 0.5),
        ylim=_limits(means, top),
        xlabel=_axis_label(groups_label, means),
        ylabel=label,
    )
    finish(axes, "y")
    return figure


def _draw_line(axes: "Axes", name: str, means: Sequence[Mean], look: Look, *, shift: float) -> None:
    """Draw a line through means, with their intervals. Means without a value are skipped."""
    positions = []
    values = []
    for group, mean in enumerate(means):
        if mean.value is None:
            continue
        positions.append(group + shift)
        values.append(mean.value)
        if mean.interval:
            axes.vlines(group + shift, *mean.interval, color=look.colour, linewidth=1)
    axes.plot(
        positions,
        values,
        label=name,
        color=look.colour,
        linestyle=look.line,
        linewidth=1.2,
        # Matplotlib reserves space for a line without points.
        clip_on=not values,
        **look.of_points(),
    )


def _limits(means: Mapping[str, Sequence[Mean | None]], top: float) -> tuple[float, float]:
    """Return the ends of an axis that begins at 0 and includes every value and interval."""
    ends: list[float] = []
    for of_series in means.values():
        for mean in of_series:
            if mean is not None:
                numbers = (mean.value, *mean.ends)
                ends.extend(number for number in numbers if number is not None)
    return min([0, *ends]), max([top, *ends])


def _with_counts(
    groups: Sequence[str], means: Mapping[str, Sequence[Mean | None]], width: int
) -> list[str]:
    """Return the names of the groups with their numbers of questions, if they are known."""
    labels = []
    for group, name in enumerate(groups):
        counts = count_text([of_series[group] for of_series in means.values()])
        labels.append(wrapped(name, width) + (f"\n{counts}" if counts else ""))
    return labels


def count_text(means: Sequence[Mean | None]) -> str:
    """Return the number of questions in means, such as ``n = 50``; "" if it is unknown.

    >>> count_text([Mean(1.0, questions=48), Mean(1.0, questions=50), Mean()])
    'n = 48 to 50'
    """
    counts = [mean.questions for mean in means if mean and mean.value is not None]
    known_counts = [count for count in counts if count]
    if not known_counts:
        return ""
    lowest = min(known_counts)
    highest = max(known_counts)
    return f"n = {lowest:,}" if lowest == highest else f"n = {lowest:,} to {highest:,}"


def _axis_label(label: str, means: Mapping[str, Sequence[Mean | None]]) -> str:
    """Return the label of an axis, with a line that explains the intervals."""
    num_values = 0
    num_intervals = 0
    for of_series in means.values():
        for mean in of_series:
            num_values += mean is not None and mean.value is not None
            num_intervals += mean is not None and mean.interval is not None
    if not num_intervals:
        note = "no intervals"
    elif num_intervals < num_values:
        note = "bars: 95 % intervals, where known"
    else:
        note = "bars: 95 % intervals"
    return f"{textwrap.fill(label, _LABEL)}\n{note}".strip()


def spoken(groups: Sequence[str], means: Mapping[str, Sequence[Mean | None]], decimals: int) -> str:
    """List the values of a figure, for readers who cannot see it."""
    sentences = []
    for name, of_series in means.items():
        values = []
        for group, mean in zip(groups, of_series, strict=True):
            if mean is not None:
                value = "none" if mean.value is None else f"{mean.value:.{decimals}f}"
                values.append(f"{group} {value}")
        sentences.append(f"{name}: {', '.join(values)}")
    return "; ".join(sentences)
