"""Accuracies of all tasks, and lines over groups of questions."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan.report.groups import Part
from lmms_egoplan.benchmarks.egoplan.report.series import CHANCE, MAIN_TASK, Series
from lmms_egoplan.report.charts import finish, line, marker, new_figure, shade
from lmms_egoplan.report.document import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_OFFSET = {"textcoords": "offset points", "size": 8, "color": "0.15"}
# Signs of the lines of the baselines.
_SIGNS = {"_blind": 3, "_narrated": 1}


def accuracies_figure(series: Sequence[Series]) -> Figure:
    """Of all tasks, the best first."""
    known = [(each, each.percent("acc"), each.interval()) for each in series if each.percent("acc") is not None]
    order = sorted(known, key=lambda found: -found[1])
    return Figure(
        "egoplan_accuracy",
        "Accuracy of all runs",
        "Accuracy with 95 % intervals, clustered by video. Filled: ranked behind the video, as in the paper. Hollow: "
        "other tasks. A shape is a run; a run without such a task has that of its model.",
        partial(_draw_accuracies, order),
        "; ".join(f"{each.name}, {acc:.2f} %" for each, acc, _ in order),
    )


def _draw_accuracies(found: Sequence[tuple[Series, float, tuple[float, float] | None]]) -> "Drawing":
    figure, axes = new_figure(7.2, 1.1 + 0.3 * len(found))
    axes.axvline(CHANCE, color="0.15", linestyle=":", linewidth=1.2)
    axes.annotate("chance", (CHANCE, 1), (0, 2), xycoords=("data", "axes fraction"), ha="center", **_OFFSET)
    for place, (each, acc, interval) in enumerate(found):
        if interval:
            axes.hlines(place, *interval, color="0.15", linewidth=1.2)
        axes.plot(acc, place, linestyle="none", zorder=3, **_point(each))
        right = max(acc, interval[1] if interval else acc)
        axes.annotate(f"{acc:.1f}", (right, place), (6, 0), va="center", **_OFFSET)
    axes.set_yticks(range(len(found)), [_short(each) for each, _, _ in found])
    axes.set(xlim=(0, _top(right for _, acc, interval in found for right in interval or (acc,))), xlabel="accuracy, %")
    axes.set_ylim(len(found) - 0.4, -0.6)
    finish(axes)
    return figure


def _short(each: Series) -> str:
    """A series' name where there is little room."""
    task = each.task_run.task
    return each.run.name if task == MAIN_TASK else f"{each.run.name}, {task.removeprefix(MAIN_TASK).strip('_') or task}"


def _point(each: Series) -> dict[str, Any]:
    """Marker of a series: filled where it was ranked behind the video."""
    face = shade(each.look) if each.is_main else "white"
    return {
        "marker": marker(each.look),
        "markersize": 6.5,
        "markerfacecolor": face,
        "markeredgecolor": "0.15" if each.is_main else shade(each.look),
        "markeredgewidth": 0.7 if each.is_main else 1.4,
    }


def _top(values: Iterable[float]) -> float:
    """End of an axis of per cents: some room, but no more than 100 needs."""
    return min(105.0, max([50.0, *values]) + 7)


def lines_figure(
    key: str, title: str, label: str, groups: Mapping[str, Mapping[str, tuple[Series, Part]]], told: str
) -> Figure | None:
    """Of each run its main task and the baselines; None where no run has such."""
    shown: dict[str, tuple[Series, list[Part | None]]] = {}
    mains = {}
    for parts in groups.values():
        for each, _ in parts.values():
            if each.is_main:
                mains.setdefault(each.run.name, each.name)
    for parts in groups.values():
        for name, (each, _) in parts.items():
            if each.unseen or mains.get(each.run.name) == name:
                found = [parts[name][1] if name in parts else None for parts in groups.values()]
                shown.setdefault(name, (each, found))
    if not shown:
        return None
    sizes = [max(part.questions for _, part in parts.values()) for parts in groups.values()]
    ticks = [f"{group}\n{size:,} questions" for group, size in zip(groups, sizes, strict=True)]
    return Figure(
        key,
        title,
        f"{told} 95 % intervals, clustered by video. Dotted: the question without the video (blind); dashed: "
        "narrations in place of the video.",
        partial(_draw_lines, list(shown.values()), ticks, label),
        "; ".join(
            f"{name}: " + ", ".join("none" if p is None or p.acc is None else f"{p.acc:.1f} %" for p in found)
            for name, (_, found) in shown.items()
        ),
    )


def _draw_lines(shown: Sequence[tuple[Series, Sequence[Part | None]]], ticks: Sequence[str], label: str) -> "Drawing":
    figure, axes = new_figure(7.2, 3.4)
    axes.axhline(CHANCE, color="0.15", linewidth=0.8)
    axes.annotate("chance", (1, CHANCE), (3, 0), xycoords=("axes fraction", "data"), va="center", **_OFFSET)
    step = min(0.08, 0.5 / len(shown))
    tops = []
    for number, (each, parts) in enumerate(shown):
        there = [(place, part) for place, part in enumerate(parts) if part is not None and part.acc is not None]
        shift = step * (number - (len(shown) - 1) / 2)
        style = line(_SIGNS[each.unseen]) if each.unseen else "-"
        for place, part in there:
            tops += part.interval or (part.acc,)
            if part.interval:
                axes.vlines(place + shift, *part.interval, color=shade(each.look), linewidth=1)
        places, accuracies = [place + shift for place, _ in there], [part.acc for _, part in there]
        look = {"label": _short(each), "color": shade(each.look), "linestyle": style}
        axes.plot(places, accuracies, **look, **_point(each))
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set(ylim=(0, _top(tops)), xlim=(-0.5, len(ticks) - 0.5), ylabel="accuracy, %", xlabel=label)
    finish(axes)
    return figure
