"""Figures of accuracies: of all runs, and by group of questions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lmms_egoplan.report.charts import (
    NOTE,
    draw_lines,
    finish,
    line,
    marker,
    new_figure,
    shade,
    spoken,
)
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egoplan.answers import BLIND, CHANCE, NARRATIONS, Groups, Series
from lmms_egoplan.stats.means import Mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


# Numbers of the baselines' line styles.
_LINE_STYLES = {BLIND: 3, NARRATIONS: 1}
SIMILARITY = "goal-answer similarity"


@dataclass(frozen=True)
class _Point:
    """A task with its accuracy and the interval."""

    task: Series
    accuracy: float
    interval: tuple[float, float] | None


def accuracies_figure(series: Sequence[Series]) -> Figure | None:
    """Draw all tasks with an accuracy, best first; return None if there are none."""
    points = [
        _Point(task, task.main.value, task.main.interval)
        for task in series
        if task.main.value is not None
    ]
    if not points:
        return None
    points.sort(key=lambda point: -point.accuracy)
    return Figure(
        "egoplan_accuracy",
        "Accuracy of all runs",
        (
            "Accuracy with 95 % intervals, clustered by video. Filled: choices ranked "
            "after the video, as in the paper. Hollow: other tasks. Each run has its own "
            "marker shape, except that runs without a filled marker use their model's."
        ),
        partial(_draw_accuracies, points),
        spoken(["accuracy"], {point.task.name: [point.task.main] for point in points}, 2),
    )


def _draw_accuracies(points: Sequence[_Point]) -> "Drawing":
    figure, axes = new_figure(7.2, 1.1 + 0.3 * len(points))
    axes.axvline(CHANCE, color="0.15", linestyle=":", linewidth=1.2)
    axes.annotate(
        "chance", (CHANCE, 1), (0, 2), xycoords=("data", "axes fraction"), ha="center", **NOTE
    )
    for y, point in enumerate(points):
        if point.interval:
            axes.hlines(y, *point.interval, color="0.15", linewidth=1.2)
        axes.plot(point.accuracy, y, linestyle="none", zorder=3, **_marker(point.task))
        right = max(point.accuracy, *(point.interval or (0,)))
        axes.annotate(f"{point.accuracy:.1f}", (right, y), (6, 0), va="center", **NOTE)
    axes.set_yticks(range(len(points)), [point.task.short_name for point in points])
    axes.set(xlim=(0, _top(point.task.main for point in points)), xlabel="accuracy, %")
    axes.set_ylim(len(points) - 0.4, -0.6)
    finish(axes)
    return figure


def _marker(task: Series) -> dict[str, Any]:
    """Return the marker of a series: filled if its choices were ranked after the video."""
    face = shade(task.look) if task.is_main else "white"
    return {
        "marker": marker(task.look),
        "markersize": 6.5,
        "markerfacecolor": face,
        "markeredgecolor": "0.15" if task.is_main else shade(task.look),
        "markeredgewidth": 0.7 if task.is_main else 1.4,
    }


def _top(means: Iterable[Mean]) -> float:
    """Return the upper limit of an axis in per cent.

    It is 7 above the largest value, at least 57 and at most 105.
    """
    largest = 50.0
    for mean in means:
        for end in mean.interval or (mean.value,):
            if end is not None:
                largest = max(largest, end)
    return min(105.0, largest + 7)


def past_actions_figure(groups: Groups) -> Figure | None:
    """Draw accuracies by number of past actions, as in Fig. 8 of the paper."""
    caption = (
        "As in Fig. 8 of the paper. The bins are this project's, as the paper does not state them."
    )
    by = "number of past actions"
    return lines_figure("egoplan_past_actions", by, by, groups, caption)


def similarity_figure(groups: Groups, measure: str, *, is_own_model: bool) -> Figure | None:
    """Draw accuracies by goal-answer similarity, as in Fig. 7 of the paper.

    Args:
        groups: The tasks' accuracies by level.
        measure: Name of the similarity.
        is_own_model: True if the user chose the model for the similarity.
    """
    if not is_own_model:
        caption = (
            f"As in Fig. 7 of the paper: three levels of the {measure}. The paper "
            "uses BERTScore. The equal size of the levels is this project's choice."
        )
    else:
        caption = (
            f"As in Fig. 7 of the paper: three levels of the {measure}. The equal "
            "size of the levels is this project's choice."
        )
    label = "similarity of goal and right answer"
    return lines_figure("egoplan_similarity", SIMILARITY, label, groups, caption)


def lines_figure(key: str, by: str, label: str, groups: Groups, caption: str) -> Figure | None:
    """Draw each run's main task and the baselines by group; return None if no run has one.

    Args:
        key: The figure's key.
        by: The property that defines the groups.
        label: Label of the groups' axis.
        groups: The tasks' accuracies by group.
        caption: First sentences of the caption.
    """
    drawn = _drawn_series(groups)
    if not drawn:
        return None
    means = {task.name: _means_by_group(task, groups) for task in drawn}
    ticks = []
    for group, parts in groups.items():
        size = max(part.acc.questions or 0 for part in parts)
        ticks.append(f"{group}\n{size:,} questions")
    looks = {task.name: _line_look(task) for task in drawn}
    all_means: list[Mean] = []
    for task_means in means.values():
        all_means += task_means
    caption = (
        f"{caption} 95 % intervals, clustered by video. Dotted: the question without "
        "the video (blind). Dashed: narrations instead of the video."
    )
    return Figure(
        key,
        f"Accuracy by {by}",
        caption,
        partial(draw_lines, ticks, means, "accuracy, %", label, _top(all_means), looks, CHANCE),
        spoken(list(groups), means, 1),
    )


def _drawn_series(groups: Groups) -> list[Series]:
    """Return the baselines without video, and each run's first task with the video."""
    series: dict[str, Series] = {}
    for parts in groups.values():
        for part in parts:
            series[part.series.name] = part.series
    main_names: dict[str, str] = {}
    for task in series.values():
        if task.is_main:
            main_names.setdefault(task.run.name, task.name)
    return [
        task
        for task in series.values()
        if task.without_video or main_names.get(task.run.name) == task.name
    ]


def _means_by_group(task: Series, groups: Groups) -> list[Mean]:
    """Return a task's accuracy in each group."""
    means = []
    for parts in groups.values():
        by_name = {part.series.name: part.acc for part in parts}
        means.append(by_name.get(task.name, Mean()))
    return means


def _line_look(task: Series) -> dict[str, Any]:
    """Return matplotlib's arguments for a task's line."""
    style = line(_LINE_STYLES[task.without_video]) if task.without_video else "-"
    return {
        "label": task.short_name,
        "color": shade(task.look),
        **_marker(task),
        "linestyle": style,
    }
