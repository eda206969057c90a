"""Draw the heat map of models by scenarios, as in Fig.
7, or by categories of goals for Goal-Step steps.
"""

import math
import textwrap
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.report.answers import Graded, overall_score
from lmms_egoplan.report.charts import new_figure
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.scores import Answer
from lmms_egoplan.report.tables import read_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

# In inches; a cell contains text such as "100.0*".
_CELL, _LABELS, _NARROWEST = (0.62, 0.42), (3.4, 1.7), 7.5
_NAME = 30  # characters per line of a name
# From bright to dark in even steps, also in greyscale; darker is higher, as in Fig. 7.
_COLORS = "YlGnBu"
# Colours of text on cells, text around cells, and hatches. A page with a dark theme may recolour
# the text around cells.
_CELL_INK, _FRAME_INK, _HATCH = "#111111", "0.15", "0.6"
# Below this relative luminance (WCAG 2), white text is easier to read than black.
_DARK = 0.179
_NOTE = read_notes(__file__)


class Cell(NamedTuple):
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
        return "n/a" if math.isnan(self.score) else f"{self.score:.1f}{'*' * self.partial}"


class Heatmap(NamedTuple):
    """Scores of runs by scenarios.

    Attributes:
        runs: Names of the runs, highest overall score first.
        columns: "Overall", then the scenarios, lowest average over the runs first.
        cells: A row for each run, with a cell for each column.
    """

    runs: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


def heatmap_of(runs: Sequence[Graded]) -> Heatmap:
    """Make the heat map of at least one run with answers.

    Runs and scenarios without a score come last, and a scenario's average ignores missing scores.
    Ties are ordered by name.
    """
    cells: dict[str, dict[str, Cell]] = {}
    for run in runs:
        answers = list((run.answers or {}).values())
        by_group: dict[str, list[Answer]] = {}
        for answer in answers:
            by_group.setdefault(answer.groups["group"], []).append(answer)
        cells[run.name] = {"": _cell(answers)} | {
            group: _cell(steps) for group, steps in by_group.items()
        }
    groups = {group for run_cells in cells.values() for group in run_cells} - {""}
    missing = Cell(math.nan, partial=False)
    names = sorted(cells, key=lambda name: (_rank([-cells[name][""].score]), name))
    ordered = sorted(
        groups,
        key=lambda group: (_rank([cells[n].get(group, missing).score for n in names]), group),
    )
    rows = tuple(
        tuple(cells[name].get(group, missing) for group in ("", *ordered)) for name in names
    )
    return Heatmap(tuple(names), ("Overall", *ordered), rows)


def heatmap_figure(runs: Sequence[Graded]) -> Figure:
    """Return the report's figure for runs that are all about the benchmark's steps, or all about
    Goal-Step's.
    """
    heatmap, is_goalstep = heatmap_of(runs), runs[0].is_goalstep
    by = "category" if is_goalstep else "scenario"
    judges = ", ".join(sorted({run.judge or "none" for run in runs}))
    subject = (
        f"{GOALSTEP_STEPS} by the category of their goal"
        if is_goalstep
        else "As Fig. 7 of the paper"
    )
    size = {"runs": len(heatmap.runs), "columns": len(heatmap.columns) - 1}
    return Figure(
        key="egointent_goalstep_heatmap" if is_goalstep else "egointent_heatmap",
        title=f"{GOALSTEP_STEPS}: overall score by {by}"
        if is_goalstep
        else f"Overall score by {by}",
        caption=_NOTE("heatmap_caption", subject=subject, by=by, judges=judges),
        draw=partial(draw, heatmap),
        description=_NOTE(
            "heatmap_description", by=by, best=heatmap.runs[0], hardest=heatmap.columns[1], **size
        ),
        has_cells=True,
    )


def draw(heatmap: Heatmap) -> "Drawing":
    """Draw a heat map. The user's matplotlib settings for hatches are ignored."""
    import matplotlib

    scores = np.ma.masked_invalid([[cell.score for cell in row] for row in heatmap.cells])
    rows, columns = scores.shape
    with matplotlib.rc_context({"hatch.linewidth": 0.5, "hatch.color": _HATCH}):
        width, height = _CELL[0] * columns + _LABELS[0], _CELL[1] * rows + _LABELS[1]
        figure, axes = new_figure(max(_NARROWEST, width), height)
        axes.patch.set(facecolor="white", edgecolor=_HATCH, hatch="////", linewidth=0)
    mesh = axes.pcolormesh(scores, cmap=_COLORS, edgecolors="white", linewidth=0.8)
    is_dark = ~np.ma.getmaskarray(scores) & (_luminance(mesh.to_rgba(scores)) < _DARK)
    for y, row in enumerate(heatmap.cells):
        for x, cell in enumerate(row):
            box = (
                {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
                if math.isnan(cell.score)
                else None
            )
            ink = "white" if is_dark[y, x] else _CELL_INK
            axes.text(
                x + 0.5,
                y + 0.5,
                cell.text,
                ha="center",
                va="center",
                color=ink,
                fontsize=9,
                bbox=box,
            )
    axes.axvline(1, color="white", linewidth=6)
    heads = [_name(column) for column in heatmap.columns]
    axes.set_xticks(
        np.arange(columns) + 0.5,
        heads,
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
