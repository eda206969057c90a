"""Draw the heat map of models by scenarios, as in the paper's Fig. 7.

Here, scenarios are rows, so that many of them fit into a column of a paper.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.report.charts import COLUMN, LINE_HEIGHT, SMALLEST, TEXT, wrapped
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egointent.answers import EgoIntentTask, overall_of
from lmms_egoplan.report.plots import count_text
from lmms_egoplan.report.scores import Answer
from lmms_egoplan.stats.means import Mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# In points; a cell contains a score such as "100.0*" above its interval.
_CELL_HEIGHT = 21.0
# Runs next to each other. The others are below them.
_MOST_COLUMNS = 5
# Characters per line of the names of runs and scenarios.
_RUN_NAME = 20
_SCENARIO = 20
# From bright to dark in even steps, also in greyscale; darker is higher, as in Fig. 7.
_COLORS = "YlGnBu"
# Colours of text on cells, text around cells, and hatches. A page with a dark theme may recolour
# the text around cells.
# SVG omits the colour of black text, and a dark theme recolours text without one.
_CELL_INK = "#010101"
_FRAME_INK = "0.15"
_HATCH = "0.6"
# Below this relative luminance (WCAG 2), white text is easier to read than black.
_DARK = 0.179


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the heat map.

    Attributes:
        mean: The score, 0..100; without a value if nothing is judged.
        partial: True if some of the answers are not judged.
    """

    mean: Mean
    partial: bool

    @property
    def score(self) -> float:
        """The score; NaN if nothing is judged."""
        return math.nan if self.mean.value is None else self.mean.value

    @property
    def text(self) -> str:
        """The score as displayed, with its interval in a second line."""
        if self.mean.value is None:
            return "n/a"
        star = "*" if self.partial else ""
        text = f"{self.mean.value:.1f}{star}"
        if self.mean.interval:
            low, high = self.mean.interval
            text += f"\n{low:.0f}-{high:.0f}"
        return text


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Scores of runs by scenarios.

    Attributes:
        runs: Names of the runs, highest overall score first.
        columns: "Overall", then the scenarios, lowest average over the runs first.
        cells: A row for each run, with a cell for each column.
    """

    runs: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


def heatmap_of(runs: Sequence[EgoIntentTask]) -> Heatmap:
    """Make the heat map of at least one run with answers.

    Runs and scenarios without a score come last, and a scenario's average ignores missing scores.
    Ties are ordered by name.
    """
    cells = {run.name: _cells_of(run) for run in runs}
    names = sorted(cells, key=lambda name: (_rank([-cells[name][""].score]), name))
    groups: set[str] = set()
    for run_cells in cells.values():
        groups |= run_cells.keys()
    groups -= {""}
    missing = Cell(Mean(), partial=False)

    def order(group: str) -> tuple[float, str]:
        return _rank([cells[name].get(group, missing).score for name in names]), group

    ordered = sorted(groups, key=order)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        rows.append(tuple(cells[name].get(group, missing) for group in ("", *ordered)))
    return Heatmap(tuple(names), ("Overall", *ordered), tuple(rows))


def _cells_of(run: EgoIntentTask) -> dict[str, Cell]:
    """Return the cells of a run by group; "" for all groups."""
    answers = list((run.answers or {}).values())
    by_group: dict[str, list[Answer]] = {}
    for answer in answers:
        by_group.setdefault(answer.groups["group"], []).append(answer)
    cells = {"": _cell(answers)}
    for group, steps in by_group.items():
        cells[group] = _cell(steps)
    return cells


def heatmap_figure(runs: Sequence[EgoIntentTask]) -> Figure:
    """Return the report's figure.

    Args:
        runs: Runs about the benchmark's steps.
    """
    heatmap = heatmap_of(runs)
    judges = ", ".join(sorted({run.judge or "none" for run in runs}))
    return Figure(
        key="egointent_heatmap",
        title="Overall score by scenario",
        caption=(
            "Like Fig. 7 of the paper: the run with the highest overall score is on the left, the "
            "scenario with the lowest average on top. Darker is higher. Below each score: its "
            "95 % interval. "
            "Asterisk: some of the found fields are not judged. n/a: no steps, or no ratings for "
            f"one of the three fields. Judges: {judges}."
        ),
        draw=partial(draw, heatmap),
        description=(
            f"A grid of {len(heatmap.runs)} runs by {len(heatmap.columns) - 1} columns. Each cell "
            "shows its score; darker cells have higher scores. Highest overall: "
            f"{heatmap.runs[0]}. Hardest scenario: {heatmap.columns[1]}."
        ),
        has_cells=True,
    )


def draw(heatmap: Heatmap) -> "Drawing":
    """Draw a heat map. The user's matplotlib settings for hatches are ignored."""
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    blocks = list(_blocks(len(heatmap.runs)))
    names = [wrapped(run, _RUN_NAME) for run in heatmap.runs]
    scenarios = [_scenario(heatmap, column) for column in range(len(heatmap.columns))]
    longest = max(len(name_line) for name in names for name_line in name.split("\n"))
    height = _CELL_HEIGHT * len(scenarios) + LINE_HEIGHT + 0.65 * SMALLEST * longest
    scores = _scores(heatmap)
    with matplotlib.rc_context({"hatch.linewidth": 0.5, "hatch.color": _HATCH}):
        figure = Drawing(
            figsize=(COLUMN, len(blocks) * height / 72), layout="constrained", facecolor="white"
        )
        all_axes = figure.subplots(len(blocks), squeeze=False)[:, 0]
        for axes in all_axes:
            # Cells without a score show the hatches.
            axes.patch.set(facecolor="white", edgecolor=_HATCH, hatch="////", linewidth=0)
    for axes, block in zip(all_axes, blocks, strict=True):
        _draw_block(axes, heatmap.cells[block], np.ma.masked_invalid(scores))
        middles = np.arange(len(names[block])) + 0.5
        axes.set_xticks(middles, names[block], rotation=90, parse_math=False)
        axes.set_yticks(np.arange(len(scenarios)) + 0.5, scenarios, parse_math=False)
        axes.tick_params(length=0, labelsize=TEXT, labelcolor=_FRAME_INK)
        axes.tick_params(bottom=False, labelbottom=False, labeltop=True)
    return figure


def _blocks(num_runs: int) -> Iterator[slice]:
    """Yield the runs that are next to each other."""
    num_blocks = math.ceil(num_runs / _MOST_COLUMNS)
    size = math.ceil(num_runs / num_blocks)
    for start in range(0, num_runs, size):
        yield slice(start, start + size)


def _scenario(heatmap: Heatmap, column: int) -> str:
    """Return the name of a scenario with its number of steps."""
    counts = count_text([cells[column].mean for cells in heatmap.cells])
    name = wrapped(heatmap.columns[column], _SCENARIO, 1 if counts else 2)
    return f"{name}\n{counts}" if counts else name


def _draw_block(axes: "Axes", runs: Sequence[Sequence[Cell]], scores: np.ma.MaskedArray) -> None:
    """Draw the cells of some runs.

    Args:
        axes: The axes.
        runs: The cells of each run.
        scores: All scores of the heat map, for the scale of colours.
    """
    by_scenario = np.array([[cell.score for cell in cells] for cells in runs]).T
    drawn = np.ma.masked_invalid(by_scenario)
    mesh = axes.pcolormesh(drawn, cmap=_COLORS, edgecolors="white", linewidth=0.8)
    if scores.count():
        mesh.set_clim(scores.min(), scores.max())
    is_scored = ~np.ma.getmaskarray(drawn)
    is_dark = is_scored & (_luminance(mesh.to_rgba(drawn)) < _DARK)
    for row in range(len(drawn)):
        for column, cells in enumerate(runs):
            cell = cells[row]
            box = None
            if math.isnan(cell.score):
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            axes.text(
                column + 0.5,
                row + 0.5,
                cell.text,
                ha="center",
                va="center",
                color="white" if is_dark[row, column] else _CELL_INK,
                fontsize=SMALLEST,
                linespacing=1.1,
                bbox=box,
            )
    axes.axhline(1, color="white", linewidth=4)  # a gap after "Overall"
    axes.set(xlim=(0, len(runs)), ylim=(len(drawn), 0))
    axes.spines[:].set_visible(False)


def _scores(heatmap: Heatmap) -> np.ndarray:
    scores = [cell.score for cells in heatmap.cells for cell in cells]
    return np.array(scores)


def _cell(steps: Sequence[Answer]) -> Cell:
    is_partial = any(
        step.record.graded.ratings[field] is None for step in steps for field in FIELDS
    )
    return Cell(overall_of(steps), is_partial)


def _rank(scores: Sequence[float]) -> float:
    """Return the mean of the known scores; infinity if none is known."""
    return fmean([score for score in scores if not math.isnan(score)] or [math.inf])


def _luminance(colors: np.ndarray) -> np.ndarray:
    """Return the relative luminance (WCAG 2) of sRGB colors, 0..1."""
    parts = colors[..., :3]
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ (
        0.2126,
        0.7152,
        0.0722,
    )
