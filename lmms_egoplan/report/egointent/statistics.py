"""Count and draw EgoIntent's steps.

Fig. 3 is the composition, Fig. 4 the steps per activity, Fig. 6 the durations.

The paper prints no numbers for Figs. 3 and 4. For Fig. 6, sec. 3.4 states the median, mean, 75th
percentile and the number of steps above 10 s.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.egointent.prepare import LABELS, PAPER, duration_counts
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, UNKNOWN, Record
from lmms_egoplan.prepared_counts import png_of
from lmms_egoplan.report.charts import NOTE, finish, hatch, line, new_figure, shade
from lmms_egoplan.text import csv_text

# Upper ends of the bins of Fig. 6 in seconds, except of the last one. The paper does not state its
# bins. It counts the steps above 10 s (sec. 3.4).
_ENDS = np.arange(0.5, 10.5, 0.5)
_SETTINGS = (*ENVIRONMENTS, UNKNOWN)


def statistics_files(steps: Sequence[Record]) -> dict[str, str | bytes]:
    """Return files by name: each figure as a PNG image, and its numbers as CSV."""
    settings = [step.environment or UNKNOWN for step in steps]
    # The paper does not say what an activity is. Its examples, such as repairing and cleaning, are
    # scenarios.
    activities = [step.category or step.scenario or UNKNOWN for step in steps]
    # Rounded, because 2.2 - 1.7 is above 0.5.
    durations = [round(step.end_sec - step.start_sec, 6) for step in steps]
    by_environment = step_counts(settings, settings)
    by_activity = step_counts(activities, settings)
    return {
        "figure_3.csv": _counts_csv("environment", by_environment),
        "figure_3.png": png_of(draw_counts(by_environment, "Steps by environment (Fig. 3)")),
        "figure_4.csv": _counts_csv("activity", by_activity),
        "figure_4.png": png_of(draw_counts(by_activity, "Steps by activity (Fig. 4)")),
        "figure_6.csv": _durations_csv(durations),
        "figure_6.png": png_of(draw_durations(durations)),
    }


def _counts_csv(group_column: str, counts: Mapping[str, Sequence[int]]) -> str:
    lines: list[Sequence[str | int]] = [(group_column, *_SETTINGS)]
    for group, group_counts in counts.items():
        lines.append((group, *group_counts))
    return csv_text(lines)


def _durations_csv(durations: Sequence[float]) -> str:
    lower_ends = (0, *_ENDS)
    upper_ends = (*_ENDS, "")
    bins = zip(lower_ends, upper_ends, duration_bins(durations), strict=True)
    return csv_text([("above_sec", "up_to_sec", "steps"), *bins])


def step_counts(groups: Sequence[str], settings: Sequence[str]) -> dict[str, list[int]]:
    """Count steps by group and by environment: indoor, outdoor and unknown.

    The largest group is first.

    Args:
        groups: Group of each step.
        settings: Environment of each step.

    >>> step_counts(["painting", "cooking", "cooking"], ["outdoor", "indoor", "indoor"])
    {'cooking': [2, 0, 0], 'painting': [0, 1, 0]}
    """
    totals = Counter(groups)
    pairs = Counter(zip(groups, settings, strict=True))
    counts: dict[str, list[int]] = {}
    for group in sorted(totals, key=lambda group: (-totals[group], group)):
        counts[group] = [pairs[group, setting] for setting in _SETTINGS]
    return counts


def duration_bins(durations: Sequence[float]) -> list[int]:
    """Count durations, in seconds, in bins of 0.5 s up to 10 s; the last bin has the longer ones.

    An upper end belongs to its bin.

    >>> bins = duration_bins([0.2, 0.5, 0.6, 10.0, 10.1, 25.0])
    >>> bins[:3], bins[-2:]
    ([2, 1, 0], [1, 2])
    """
    bin_of_duration = np.searchsorted(_ENDS, durations)
    return np.bincount(bin_of_duration, minlength=len(_ENDS) + 1).tolist()


def draw_counts(groups: Mapping[str, Sequence[int]], title: str) -> Any:
    """Draw a bar for each group of `step_counts`.

    Bars are divided by environment. Hatches distinguish the environments.
    """
    figure, axes = new_figure(7.2, 1.2 + 0.3 * len(groups))
    names = list(groups)
    counts = np.array(list(groups.values()))  # (groups, settings)
    ends = counts.cumsum(axis=1)
    starts = ends - counts
    totals = ends[:, -1]
    num_steps = counts.sum()
    for number, setting in enumerate(_SETTINGS):
        if counts[:, number].any():
            axes.barh(
                names,
                counts[:, number],
                left=starts[:, number],
                color=shade(number),
                hatch=hatch(number),
                label=setting,
            )
    for row, total in enumerate(totals):
        label = f"{total:,} ({total / num_steps:.1%})"
        axes.annotate(label, (total, row), (5, 0), va="center", **NOTE)
    axes.set(
        ylim=(len(groups) - 0.4, -0.6),
        xlim=(0, 1.25 * totals.max()),
        xlabel=f"{title}: {num_steps:,} steps",
    )
    finish(axes)
    return figure


def draw_durations(durations: Sequence[float]) -> Any:
    """Draw the histogram of durations, in seconds.

    Lines mark the numbers of sec. 3.4, next to the paper's.
    """
    counts = duration_counts(durations)
    figure, axes = new_figure(7.2, 3.6)
    bars = axes.bar(
        [0, *_ENDS], duration_bins(durations), 0.5, align="edge", color=shade(0)
    ).patches
    bars[-1].set(
        hatch=hatch(1),
        label=f"above 10 s: {counts['above_10_sec']:,} (paper: {PAPER['above_10_sec']})",
    )
    for number, name in enumerate(("median_sec", "mean_sec", "p75_sec"), 1):
        label = f"{LABELS[name]}: {counts[name]:g} (paper: {PAPER[name]:g})"
        axes.axvline(counts[name], color="0.15", linestyle=line(number), label=label)
    axes.set(
        xlabel=f"Duration of a step in s (Fig. 6): {len(durations):,} steps",
        ylabel="steps",
        xlim=(0, 10.5),
    )
    finish(axes)
    return figure
