"""Draw the heat map of models by scenarios, as in the paper's Fig. 7."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.report.charts import new_figure
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egointent.answers import EgoIntentTask, overall_score
from lmms_egoplan.report.scores import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

# In inches; a cell contains text such as "100.0*".
_CELL_WIDTH = 0.62
_CELL_HEIGHT = 0.42
_LABELS_WIDTH = 3.4
_LABELS_HEIGHT = 1.7
_NARROWEST = 7.5
_NAME = 30  # characters per line of a name
# From bright to dark in even steps, also in greyscale; darker is higher, as in Fig. 7.
_COLORS = "YlGnBu"
# Colours of text on cells, text around cells, and hatches. A page with a dark theme may recolour
# the text around cells.
_CELL_INK = "#111111"
_FRAME_INK = "0.15"
_HATCH = "0.6"
# Below this relative luminance (WCAG 2), white text is easier to read than black.
_DARK = 0.179


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the heat map.

    Attributes:
        score: 0..100; NaN if nothing is judged.
        partial: True if some of the answers are not judged.
    """

    score: float
    partial: bool

    @property
    def text(self) -> str:
        """The score as displayed."""
        if math.isnan(self.score):
            return "n/a"
        star = "*" if self.partial else ""
        return f"{self.score:.1f}{star}"


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
    missing = Cell(math.nan, partial=False)

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
            "As Fig. 7 of the paper: the run with the highest overall score is on top, the "
            "scenario with the lowest average on the left. The numbers are those of the table; "
            "darker is higher. "
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

    rows = len(heatmap.runs)
    columns = len(heatmap.columns)
    scores = np.ma.masked_invalid(_scores(heatmap))
    width = _CELL_WIDTH * columns + _LABELS_WIDTH
    height = _CELL_HEIGHT * rows + _LABELS_HEIGHT
    with matplotlib.rc_context({"hatch.linewidth": 0.5, "hatch.color": _HATCH}):
        figure, axes = new_figure(max(_NARROWEST, width), height)
        # Cells without a score show the hatches.
        axes.patch.set(facecolor="white", edgecolor=_HATCH, hatch="////", linewidth=0)
    mesh = axes.pcolormesh(scores, cmap=_COLORS, edgecolors="white", linewidth=0.8)
    is_scored = ~np.ma.getmaskarray(scores)
    is_dark = is_scored & (_luminance(mesh.to_rgba(scores)) < _DARK)
    for row, cells in enumerate(heatmap.cells):
        for column, cell in enumerate(cells):
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
                fontsize=9,
                bbox=box,
            )
    axes.axvline(1, color="white", linewidth=6)  # a gap after "Overall"
    axes.set_xticks(
        np.arange(columns) + 0.5,
        [_name(column) for column in heatmap.columns],
        rotation=40,
        ha="right",
        rotation_mode="anchor",
        parse_math=False,
    )
    axes.set_yticks(np.arange(rows) + 0.5, [_name(run) for run in heatmap.runs], parse_math=False)
    axes.tick_params(length=0, labelsize=9, labelcolor=_FRAME_INK)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.spines[:].set_visible(False)
    return figure


def _scores(heatmap: Heatmap) -> np.ndarray:
    scores = [cell.score for cells in heatmap.cells for cell in cells]
    return np.array(scores).reshape(len(heatmap.runs), len(heatmap.columns))


def _cell(steps: Sequence[Answer]) -> Cell:
    is_partial = any(
        step.record.graded.ratings[field] is None for step in steps for field in FIELDS
    )
    return Cell(overall_score(steps), is_partial)


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


def _name(text: str) -> str:
    """Wrap a name; replace characters that XML does not allow."""
    return textwrap.fill("".join(char if char.isprintable() else " " for char in text), _NAME)
