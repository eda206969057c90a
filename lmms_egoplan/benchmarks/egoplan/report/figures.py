"""EgoPlan-Bench's figures: accuracies of all tasks, and lines over groups of questions."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan.report.answers import CHANCE, Groups, Series
from lmms_egoplan.report.charts import NOTE, draw_lines, finish, line, marker, new_figure, shade, spoken
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.scores import Mean
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, RESAMPLES
from lmms_egoplan.report.tables import read_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

note = read_notes(__file__, chance=CHANCE, resamples=RESAMPLES, fewest_clusters=FEWEST_CLUSTERS)
# Signs of the lines of the baselines.
_SIGNS = {"_blind": 3, "_narrated": 1}

Point = tuple[Series, float, tuple[float, float] | None]
"""A task with its accuracy and the interval."""


def accuracies_figure(series: Sequence[Series]) -> Figure | None:
    """Draw all tasks with an accuracy, the best first; None without any."""
    points = [(task, task.main.value, task.main.interval) for task in series if task.main.value is not None]
    if not points:
        return None
    points.sort(key=lambda point: -point[1])
    spoken_means = spoken(["accuracy"], {task.name: [task.main] for task, _, _ in points}, 2)
    draw = partial(_draw_accuracies, points)
    return Figure("egoplan_accuracy", "Accuracy of all runs", note("accuracy_caption"), draw, spoken_means)


def _draw_accuracies(points: Sequence[Point]) -> "Drawing":
    figure, axes = new_figure(7.2, 1.1 + 0.3 * len(points))
    axes.axvline(CHANCE, color="0.15", linestyle=":", linewidth=1.2)
    axes.annotate("chance", (CHANCE, 1), (0, 2), xycoords=("data", "axes fraction"), ha="center", **NOTE)
    for y, (task, accuracy, interval) in enumerate(points):
        if interval:
            axes.hlines(y, *interval, color="0.15", linewidth=1.2)
        axes.plot(accuracy, y, linestyle="none", zorder=3, **_marker(task))
        right = max(accuracy, *(interval or (0,)))
        axes.annotate(f"{accuracy:.1f}", (right, y), (6, 0), va="center", **NOTE)
    axes.set_yticks(range(len(points)), [task.short_name for task, _, _ in points])
    axes.set(xlim=(0, _top(task.main for task, _, _ in points)), xlabel="accuracy, %")
    axes.set_ylim(len(points) - 0.4, -0.6)
    finish(axes)
    return figure


def _marker(task: Series) -> dict[str, Any]:
    """Return the marker of a series: filled where it was ranked after the video."""
    face = shade(task.look) if task.is_main else "white"
    return {
        "marker": marker(task.look),
        "markersize": 6.5,
        "markerfacecolor": face,
        "markeredgecolor": "0.15" if task.is_main else shade(task.look),
        "markeredgewidth": 0.7 if task.is_main else 1.4,
    }


def _top(means: Iterable[Mean]) -> float:
    """Return the end of an axis of per cents: some room, but no more than 100 needs."""
    ends = [end for mean in means for end in mean.interval or (mean.value,) if end is not None]
    return min(105.0, max([50.0, *ends]) + 7)


def lines_figure(key: str, by: str, label: str, groups: Groups, caption: str) -> Figure | None:
    """Draw each run's main task and the baselines by group; None where no run has such.

    Args:
        by: what the groups are of.
        label: of the groups' axis.
    """
    parts = {(part.series.name, group): part for group, of_group in groups.items() for part in of_group}
    series = {part.series.name: part.series for part in parts.values()}
    mains = {task.run.name: name for name, task in reversed(series.items()) if task.is_main}
    drawn = {name: task for name, task in series.items() if task.unseen or mains.get(task.run.name) == name}
    if not drawn:
        return None
    means = {name: [parts[name, group].acc if (name, group) in parts else Mean() for group in groups] for name in drawn}
    sizes = [max(part.acc.questions or 0 for part in of_group) for of_group in groups.values()]
    ticks = [f"{group}\n{size:,} questions" for group, size in zip(groups, sizes, strict=True)]
    looks = {
        name: {"label": task.short_name, "color": shade(task.look), **_marker(task)}
        | {"linestyle": line(_SIGNS[task.unseen]) if task.unseen else "-"}
        for name, task in drawn.items()
    }
    top = _top(mean for of_task in means.values() for mean in of_task)
    draw = partial(draw_lines, ticks, means, "accuracy, %", label, top, looks, CHANCE)
    return Figure(key, f"Accuracy by {by}", note("lines_caption", told=caption), draw, spoken(list(groups), means, 1))
