"""EgoThink's bars: capabilities and dimensions, with a published model for comparison."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.egothink.dimensions import Dimension
from lmms_egoplan.benchmarks.egothink.published import load
from lmms_egoplan.benchmarks.egothink.report.answers import Graded
from lmms_egoplan.benchmarks.egothink.report.scores import Part, part_of
from lmms_egoplan.report.charts import finish, hatch, new_figure, shade
from lmms_egoplan.report.document import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

# What the figures show beside the runs: the best of Table 3.
_REFERENCE = "GPT-4V"


def bars(key: str, title: str, graded: Sequence[Graded], groups: Mapping[str, Sequence[Dimension]]) -> Figure:
    """A bar for each run in each group of dimensions."""
    (reference,) = (row for row in load("table3").rows if row["model"] == _REFERENCE)
    published = [fmean(reference[dimension.name] for dimension in dimensions) for dimensions in groups.values()]
    parts = {run.name: [part_of(run, dimensions) for dimensions in groups.values()] for run in graded}
    highest = []
    for place, group in enumerate(groups):
        scores = [(found[place].score, name) for name, found in parts.items() if found[place].score is not None]
        highest.append(f"{group} {max(scores)[0]:.1f} ({max(scores)[1]})" if scores else f"{group} none")
    return Figure(
        key=key,
        title=title,
        caption=f"Scores of the runs, 0 to 100, with 95 % intervals by a bootstrap over the questions. Dashed: "
        f"{_REFERENCE} in Table 3 of the paper, graded by GPT-4.",
        draw=partial(_draw_bars, list(groups), parts, published),
        description=f"A bar for each run in each of {len(groups)} groups. The highest: {', '.join(highest)}.",
    )


def _draw_bars(groups: Sequence[str], parts: Mapping[str, Sequence[Part]], published: Sequence[float]) -> "Drawing":
    figure, axes = new_figure(7.2, 3.6)
    width = 0.8 / len(parts)
    for number, (name, found) in enumerate(parts.items()):
        left = [place - 0.4 + width * number for place in range(len(groups))]
        heights = [part.score or 0 for part in found]
        axes.bar(left, heights, width, align="edge", label=name, color=shade(number), hatch=hatch(number))
        for x, part in zip(left, found, strict=True):
            if part.interval:
                axes.vlines(x + width / 2, *part.interval, color="black", linewidth=1, zorder=3)
            if part.score is None:
                axes.text(x + width / 2, 1, "n/a", rotation=90, ha="center", va="bottom", fontsize=7)
    for place, score in enumerate(published):
        label = f"{_REFERENCE}, published" if place == 0 else None
        axes.hlines(score, place - 0.44, place + 0.44, color="white", linewidth=3)
        axes.hlines(score, place - 0.44, place + 0.44, color="black", linewidth=1.5, linestyle="--", label=label)
    axes.set(xlim=(-0.6, len(groups) - 0.4), ylim=(0, 100), ylabel="score")
    axes.set_xticks(range(len(groups)), groups)
    finish(axes)
    return figure
