"""Draw the heat map."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.egointent.heatmap import Cell, Heatmap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# In inches; a cell holds "100.0*".
_CELL = (0.62, 0.42)
_LABELS = (3.4, 1.7)
_HEAD, _LINE = 0.25, 0.14
_NARROWEST = 7.5
# Characters in a name's line, and of the notes in an inch.
_NAME, _NOTE = 30, 13
# From bright to dark at an even pace, also in greyscale; darker is higher, as in Fig. 7.
_COLORS = "YlGnBu"
_HATCH = "0.6"
# Words on cells, and beside them; a page may give the latter another colour in a dark theme.
_CELL_INK, _FRAME_INK = "#111111", "0.15"
# White text reads better than black on what is darker than this relative luminance (WCAG 2).
_DARK = 0.179


def draw_heatmap(heatmap: Heatmap) -> "Figure":
    """The heat map with its notes and warnings, however matplotlib is set to draw hatches."""
    import matplotlib
    from matplotlib.figure import Figure

    columns = ("Overall", *heatmap.scenarios)
    rows = [(overall, *cells) for overall, cells in zip(heatmap.overall, heatmap.cells, strict=True)]
    width = max(_NARROWEST, _CELL[0] * len(columns) + _LABELS[0])
    notes = [
        _one_line(note)
        for note in (" · ".join(heatmap.notes), *(f"Note: {warning}" for warning in heatmap.warnings), *_legend(rows))
    ]
    lines = [line for note in notes for line in textwrap.wrap(note, int(_NOTE * width))]
    head = _HEAD + _LINE * len(lines)
    height = _CELL[1] * len(rows) + _LABELS[1] + head
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - head / height))
    left, top = 0.1 / width, 0.15 / height
    figure.text(left, 1 - top, "\n".join(lines), fontsize=8, va="top", parse_math=False, color=_FRAME_INK)
    axes = figure.add_subplot()
    with matplotlib.rc_context({"hatch.linewidth": 0.5, "hatch.color": _HATCH}):
        _draw_cells(axes, rows)
    axes.set_xticks(range(len(columns)), map(_name, columns), rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), map(_name, heatmap.models))
    axes.tick_params(length=0, labelsize=9, labelcolor=_FRAME_INK)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)
    return figure


def _draw_cells(axes: "Axes", rows: Sequence[Sequence[Cell]]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    scores = [cell.score for row in rows for cell in row if not math.isnan(cell.score)]
    shade = Normalize(min(scores, default=0), max(scores, default=1))
    for y, row in enumerate(rows):
        for x, cell in enumerate(row):
            corner = (x - 0.5, y - 0.5)
            if math.isnan(cell.score):
                color, text, ink = "none", "n/a", _CELL_INK
                # Before matplotlib 3.11 a hatch has the colour of its patch's edge.
                axes.add_patch(Rectangle(corner, 1, 1, facecolor="white", edgecolor=_HATCH, hatch="////", linewidth=0))
            else:
                color = colormaps[_COLORS](float(shade(cell.score)))
                text = f"{cell.score:.1f}{'*' if cell.partial else ''}"
                ink = "white" if _luminance(color) < _DARK else _CELL_INK
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=color, edgecolor="white", linewidth=0.8))
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5} if text == "n/a" else None
            axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=9, bbox=box)
    axes.axvline(0.5, color="white", linewidth=6)
    axes.set(xlim=(-0.5, len(rows[0]) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.spines[:].set_visible(False)


def _luminance(color: Sequence[float]) -> float:
    """Relative luminance (WCAG 2) of an sRGB color, 0..1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _legend(rows: Iterable[Iterable[Cell]]) -> list[str]:
    cells = [cell for row in rows for cell in row]
    partial = any(cell.partial and not math.isnan(cell.score) for cell in cells)
    absent = any(math.isnan(cell.score) for cell in cells)
    return [
        "Darker is higher; shades run from the lowest to the highest score of this picture",
        *(["* some of what was found is not judged: from the ratings that there are"] if partial else []),
        *(["n/a: of one of the three fields no step is judged, or there is no step"] if absent else []),
    ]


def _name(text: str) -> str:
    return textwrap.fill(_one_line(text), _NAME)


def _one_line(text: str) -> str:
    """The text without characters that XML does not allow."""
    return "".join(char if char.isprintable() else " " for char in text)
