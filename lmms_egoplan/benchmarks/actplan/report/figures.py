"""Figures of the breakdowns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.actplan.report.answers import GROUPS, Planned
from lmms_egoplan.benchmarks.actplan.report.plans import Mean
from lmms_egoplan.report.charts import finish, hatch, line, marker, new_figure, shade
from lmms_egoplan.report.document import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_Means = Mapping[str, Mapping[str, Mean]]


def figures(planned: Sequence[Planned]) -> Iterator[Figure]:
    caption = (
        "Means of the normalised LCS with gold plan 1, 0 to 1, with 95 % intervals by a bootstrap over the activities "
        "where the run has samples. The numbers are those of the table."
    )
    correct = (
        "As Fig. 5 of the paper, with a classifier's verdicts in place of people's: share of the plans that it calls "
        "correct, by the length of gold plan 1 in steps, with 95 % intervals by a bootstrap over the activities."
    )
    bars, lines = _draw_bars, _draw_lines
    yield from (
        _figure(*told, planned)
        for told in (
            ("actplan_by_setting", "Normal and counterfactual", caption, "setting", "lcs_norm", bars),
            ("actplan_by_length", "Normalised LCS by length", caption, "length", "lcs_norm", lines),
            ("actplan_correct_by_length", "Correctness by length", correct, "length", "bleurt_correct", lines),
            ("actplan_by_activity_type", "Types of activity", caption, "activity_type", "lcs_norm", bars),
        )
        if any(_series(run, told[3], told[4]) for run in planned)
    )


def _series(run: Planned, by: str, measure: str) -> dict[str, Mean]:
    """By group, where the measure is defined for a plan."""
    return {group: means[measure] for group, means in run.groups[by].items() if means[measure].value is not None}


def _figure(
    key: str,
    title: str,
    caption: str,
    by: str,
    measure: str,
    draw: "Callable[[list[str], _Means, str], Drawing]",
    planned: Sequence[Planned],
) -> Figure:
    found = {run.name: series for run in planned if (series := _series(run, by, measure))}
    groups = [group for group in GROUPS[by] if any(group in series for series in found.values())]
    ends = {name: sorted(mean.value for mean in series.values()) for name, series in found.items()}
    told = [f"{name} from {values[0]:.2f} to {values[-1]:.2f}" for name, values in ends.items()]
    label = "correct by classifier" if measure == "bleurt_correct" else "normalised LCS"
    return Figure(
        key=key,
        title=title,
        caption=caption,
        draw=partial(draw, groups, found, label),
        description=f"For each run its {label} in {', '.join(groups)}: {'; '.join(told)}.",
    )


def _draw_bars(groups: Sequence[str], found: _Means, label: str) -> "Drawing":
    figure, axes = new_figure(7.2, 3.4)
    width = 0.8 / len(found)
    for number, (name, means) in enumerate(found.items()):
        middles = [place - 0.4 + width * (number + 0.5) for place in range(len(groups))]
        shown = [means.get(group, Mean()) for group in groups]
        heights = [mean.value or 0 for mean in shown]
        axes.bar(middles, heights, width, label=name, color=shade(number), hatch=hatch(number))
        for x, mean in zip(middles, shown, strict=True):
            if mean.interval:
                axes.vlines(x, *mean.interval, color="black", linewidth=1)
            if mean.value is None:
                axes.text(x, 0.01, "n/a", rotation=90, ha="center", va="bottom", fontsize=7)
    axes.set(ylim=(0, 1), ylabel=label)
    axes.set_xticks(range(len(groups)), groups)
    finish(axes)
    return figure


def _draw_lines(groups: Sequence[str], found: _Means, label: str) -> "Drawing":
    figure, axes = new_figure(7.2, 3.4)
    for number, (name, means) in enumerate(found.items()):
        offset = 0.5 * ((number + 0.5) / len(found) - 0.5)
        points = [
            (place + offset, mean)
            for place, group in enumerate(groups)
            if (mean := means.get(group, Mean())).value is not None
        ]
        axes.plot(
            [x for x, _ in points], [mean.value for _, mean in points], label=name, color=shade(number),
            marker=marker(number), linestyle=line(number), markersize=5, clip_on=False,
        )  # fmt: skip
        for x, mean in points:
            if mean.interval:
                axes.vlines(x, *mean.interval, color=shade(number), linewidth=1)
    axes.set(ylim=(0, 1), ylabel=label, xlabel="steps of gold plan 1")
    axes.set_xticks(range(len(groups)), groups)
    finish(axes)
    return figure
