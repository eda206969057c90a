"""The heat map as a picture or a page."""

import io
import math
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.egointent.heatmap import Cell, Heatmap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".html")

_TITLE = "EgoIntent: overall score by scenario"
# Inches; a cell takes "100.0*" at the numbers' size.
_CELL = (0.62, 0.42)
_MARGINS = (4.2, 3.0)
_NARROWEST = 7.5
_DPI = 160
# Characters: a name's line, and a note's at the narrowest.
_NAME, _NOTE = 34, 100
# From bright to dark at an even pace, also in greyscale; darker is higher, as in Fig. 7.
_COLORS = "cividis_r"
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>body {{ margin: 1rem; }} svg {{ max-width: 100%; height: auto; }}</style>
</head>
<body>
{svg}
</body>
</html>
"""


def write_heatmap(heatmap: Heatmap, path: Path) -> None:
    """Draw a heat map into a file, which appears whole or not at all; html is one page that needs nothing else.

    Args:
        path: its suffix, one of `SUFFIXES` in any case, tells the form.

    Raises:
        ValueError: another suffix.
        OSError: the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: the file's suffix must be one of {', '.join(SUFFIXES)}")
    content = _render(heatmap, "png" if suffix == ".png" else "svg")
    if suffix == ".html":
        svg = content.decode()
        content = _PAGE.format(title=escape(_TITLE), svg=svg[svg.index("<svg") :]).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".heatmap.", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        unfinished.write_bytes(content)
        unfinished.replace(path)


def _render(heatmap: Heatmap, form: str) -> bytes:
    import matplotlib

    content = io.BytesIO()
    # Text stays text in svg; the second is for minus and other signs that a font may lack.
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 9, "hatch.linewidth": 0.6}):
        _figure(heatmap).savefig(content, format=form, dpi=_DPI)
    return content.getvalue()


def _figure(heatmap: Heatmap) -> "Figure":
    from matplotlib.figure import Figure

    columns = ("Overall", *heatmap.scenarios)
    rows = [(overall, *cells) for overall, cells in zip(heatmap.overall, heatmap.cells, strict=True)]
    width = max(_NARROWEST, _CELL[0] * len(columns) + _MARGINS[0])
    notes = _wrapped([" · ".join(heatmap.notes), *heatmap.warnings, *_legend(rows)], int(_NOTE * width / _NARROWEST))
    height = _CELL[1] * len(rows) + _MARGINS[1] + 0.17 * notes.count("\n")
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(f"{_TITLE}\n", x=0.01, ha="left", fontsize=13, parse_math=False)
    return figure


def _legend(rows: Iterable[Iterable[Cell]]) -> list[str]:
    cells = [cell for row in rows for cell in row]
    partial = any(cell.partial and not math.isnan(cell.score) for cell in cells)
    unjudged = any(math.isnan(cell.score) for cell in cells)
    return [
        *(["* not all of its steps' fields are judged"] if partial else []),
        *(["n/a: a field of which nothing is judged, or no step"] if unjudged else []),
    ]
