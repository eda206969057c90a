"""Show the statistics of published or built questions: Table 2, Figures 4 and 5."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lmms_egoplan.prepared_counts import png_of
from lmms_egoplan.text import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from lmms_egoplan.benchmarks.egoplan.statistics import TABLE_2, Statistics

COLUMNS = [
    "split",
    "questions",
    "task goals",
    "action plans (verb+object)",
    "verbs",
    "objects",
    "scenes",
]
"""Columns of Table 2."""
# Numbers of verbs, and objects per verb, in Figure 4.
_VERBS = 20
_OBJECTS = 8
# Number of words in Figure 5. The paper does not state it.
_GOAL_WORDS = 80
# Horizontal and vertical gap between two words, in the units of the font size.
_GAP = (7.0, 2.0)


def statistics_files(by_name: Mapping[str, Statistics]) -> dict[str, str | bytes]:
    """Return tables as CSV, Table 2 also as Markdown, and Figures 4 and 5 as PNG images.

    Args:
        by_name: Statistics by name, at least one. A name such as "EgoPlan-Val, counted", of a row
            of Table 2, adds the differences from that row. The figures show the last statistics.

    Returns:
        The files' contents by name.
    """
    rows = _table_2_rows(by_name)
    last_name, last_stats = list(by_name.items())[-1]
    verb_rows = []
    for verb, verb_count, object_counts in last_stats.verbs:
        verb_rows += [(verb, verb_count, name, count) for name, count in object_counts]
    return {
        "table_2.csv": csv_text([COLUMNS, *rows]),
        "table_2.md": _markdown_table(COLUMNS, rows),
        "figure_4.csv": csv_text([("verb", "verb_count", "object", "count"), *verb_rows]),
        "figure_4.png": png_of(draw_verbs(last_stats, last_name)),
        "figure_5.csv": csv_text([("word", "goals"), *last_stats.words]),
        "figure_5.png": png_of(draw_goals(last_stats, last_name)),
    }


def _table_2_rows(by_name: Mapping[str, Statistics]) -> list[list[Any]]:
    """Return the rows of statistics, their differences from the paper, and the paper's rows."""
    paper = {f"{name}, counted": numbers for name, *numbers in TABLE_2}
    rows: list[list[Any]] = []
    for name, stats in by_name.items():
        rows.append([name, *stats.counts])
        if name in paper:
            differences = np.array(stats.counts, float) - paper[name]
            cells = [f"{difference:+.0f}" for difference in differences]
            rows.append(["difference from the paper", *cells])
    return rows + TABLE_2


def _markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table whose first column is text and whose others are numbers."""
    lines = [list(columns), ["---"] + ["---:"] * (len(columns) - 1)]
    for row in rows:
        lines.append([_markdown_cell(cell) for cell in row])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown_cell(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)


def draw_verbs(stats: Statistics, name: str) -> "Figure":
    """Draw the most frequent verbs among the choices (Figure 4).

    Each is a bar of its most frequent objects.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    verbs = stats.verbs[:_VERBS]
    height = 1 + 0.42 * len(verbs)
    figure = Figure(figsize=(13, height))
    axes = figure.add_axes((0.09, 0.1 / height, 0.9, 1 - 0.6 / height))
    totals = [total for _, total, _ in verbs]
    axes.barh(range(len(verbs)), totals, color="0.9", edgecolor="white", linewidth=0.8)
    for rank in range(_OBJECTS - 1, -1, -1):  # each bar covers the one before except its last part
        ends = []
        for _, _, things in verbs:
            ends.append(sum(count for _, count in things[: rank + 1]))
        color = colormaps["YlGnBu"](0.6 - 0.06 * rank)
        axes.barh(range(len(verbs)), ends, color=color, edgecolor="white", linewidth=0.8)
    for row, (_, total, things) in enumerate(verbs):
        text = ", ".join(
            f"{thing or '(no object)'} {count:,}" for thing, count in things[:_OBJECTS]
        )
        axes.annotate(
            text,
            (total, row),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            parse_math=False,
        )
    axes.set_yticks(
        range(len(verbs)), [f"{verb}  {total:,}" for verb, total, _ in verbs], parse_math=False
    )
    axes.set(ylim=(len(verbs) - 0.4, -0.6), xlim=(0, 2 * verbs[0][1]), xticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = (
        f"{name}: top {len(verbs)} verbs among the choices, with their top {_OBJECTS} "
        "objects (last: all others)"
    )
    axes.set_title(title, loc="left", fontsize=12)
    return figure


def draw_goals(stats: Statistics, name: str) -> "Figure":
    """Draw a word cloud of the task goals (Figure 5).

    A word's area grows with its number of goals.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    figure = Figure(figsize=(10, 6))
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.92), aspect="equal")
    boxes: list[tuple[float, ...]] = []  # left, bottom, right and top
    for rank, (word, count) in enumerate(stats.words[:_GOAL_WORDS]):
        path = TextPath((0, 0), word, size=10 + 50 * math.sqrt(count / stats.words[0][1]))
        # The box of the outline's control points is close to the one that `get_extents` computes
        # from its curves.
        x, y = path.vertices.min(axis=0)
        right, top = path.vertices.max(axis=0)
        x_left, bottom = _free_position(right - x, top - y, boxes)
        boxes.append((x_left, bottom, x_left + right - x, bottom + top - y))
        outline = path.transformed(Affine2D().translate(x_left - x, bottom - y))
        axes.add_patch(
            PathPatch(outline, color=colormaps["YlGnBu"](0.95 - 0.1 * (rank % 5)), linewidth=0)
        )
    axes.autoscale_view()
    axes.axis("off")
    axes.set_title(
        f"{name}: words of the task goals; larger words occur in more goals",
        loc="left",
        fontsize=12,
    )
    return figure


def _free_position(
    width: float, height: float, boxes: Sequence[Any], count: int = 1000
) -> tuple[float, float]:
    """Return left and bottom of the first position on a flat spiral where a box overlaps none.

    Args:
        boxes: Left, bottom, right and top of the boxes placed so far.
        count: Number of positions to try first.
    """
    turns = np.sqrt(64 + 11.2 * np.arange(count)) - 8
    x_left = 3 * turns * np.cos(turns) - width / 2
    bottom = 1.5 * turns * np.sin(turns) - height / 2
    start, low, stop, high = np.array(boxes).reshape(-1, 4, 1).transpose(1, 0, 2)
    is_beside = np.maximum(start - x_left - width, x_left - stop) > _GAP[0]
    is_above_or_below = np.maximum(low - bottom - height, bottom - high) > _GAP[1]
    free = np.flatnonzero((is_beside | is_above_or_below).all(axis=0))
    if not len(free):
        return _free_position(width, height, boxes, 4 * count)
    return float(x_left[free[0]]), float(bottom[free[0]])
