"""Draw people's verdicts by length (Fig. 5) next to a file of scores."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from lmms_egoplan.report.actplan.marks import correct_by_length, length_figure
from lmms_egoplan.report.document import write_figure


def figure_5_paths(out: Path) -> tuple[Path, Path]:
    """Return the paths of the figure, next to the file of scores: PNG and SVG."""
    key = f"{out.stem}_figure_5"
    return out.with_name(f"{key}.png"), out.with_name(f"{key}.svg")


def write_figure_5(out: Path, samples: Sequence[Mapping[str, Any]]) -> None:
    """Draw people's verdicts by length next to the file of scores; nothing without verdicts."""
    labelled = [{"model": "plans", **sample} for sample in samples if "correct" in sample]
    figure = length_figure(correct_by_length(labelled))
    picture, drawing = figure_5_paths(out)
    if figure is not None:
        write_figure(out.parent, replace(figure, key=picture.stem))
        typer.echo(f"Correctness by people and length (Fig. 5): {picture}")
    else:  # Delete the figure of earlier scores, which --overwrite allows.
        picture.unlink(missing_ok=True)
        drawing.unlink(missing_ok=True)
