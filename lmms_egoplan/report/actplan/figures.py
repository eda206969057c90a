"""ActPlan-1K's figures: scores by setting, length and type of activity."""

from collections.abc import Sequence
from functools import partial

from lmms_egoplan.report.actplan.answers import GROUPS, Planned
from lmms_egoplan.report.charts import Look, looks_of
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.plots import draw_lines, draw_points, spoken
from lmms_egoplan.stats.means import Mean

_LCS_CAPTION = (
    "Mean normalised LCS with gold plan 1, 0 to 1. Runs with samples have 95 % "
    "intervals over the activities. The table has the numbers."
)


def by_setting_figure(planned: Sequence[Planned], models: Sequence[str]) -> Figure | None:
    """Draw LCS of normal and counterfactual activities."""
    return _lcs_points(
        "actplan_by_setting", "Normal and counterfactual", planned, models, "setting"
    )


def by_activity_type_figure(planned: Sequence[Planned], models: Sequence[str]) -> Figure | None:
    """Draw LCS by type of activity."""
    return _lcs_points(
        "actplan_by_activity_type", "Types of activity", planned, models, "activity_type"
    )


def _lcs_points(
    key: str, title: str, planned: Sequence[Planned], models: Sequence[str], by: str
) -> Figure | None:
    """Draw LCS by group; return None without values.

    Args:
        key: The figure's key.
        title: The figure's title.
        planned: The runs' tasks.
        models: Names of all runs of the report.
        by: A key of `GROUPS`.
    """
    groups, series = _series_by_group(planned, by, "lcs_norm")
    if not series:
        return None
    looks = _looks(planned, models)
    draw = partial(draw_points, groups, series, looks, "normalised LCS, 0 to 1", 1, decimals=2)
    return Figure(key, title, _LCS_CAPTION, draw, spoken(groups, series, 2))


def by_length_figure(planned: Sequence[Planned], models: Sequence[str]) -> Figure | None:
    """Draw LCS by the length of gold plan 1."""
    groups, series = _series_by_group(planned, "length", "lcs_norm")
    if not series:
        return None
    length = "steps of gold plan 1"
    return Figure(
        "actplan_by_length",
        "Normalised LCS by length",
        _LCS_CAPTION,
        partial(
            draw_lines,
            groups,
            series,
            _looks(planned, models),
            "normalised LCS, 0 to 1",
            length,
            1,
        ),
        spoken(groups, series, 2),
    )


def correct_by_length_figure(planned: Sequence[Planned], models: Sequence[str]) -> Figure | None:
    """Draw the classifier's verdicts by the length of gold plan 1, like Fig. 5 of the paper."""
    groups, series = _series_by_group(planned, "length", "bleurt_correct")
    if not series:
        return None
    length = "steps of gold plan 1"
    return Figure(
        "actplan_correct_by_length",
        "Classifier's verdicts by length",
        (
            "Like Fig. 5 of the paper, with a classifier's verdicts instead of human "
            "ones: share of the plans called correct, by the length of gold plan 1 in "
            "steps, with 95 % intervals over the activities."
        ),
        partial(
            draw_lines,
            groups,
            series,
            _looks(planned, models),
            "share correct by classifier",
            length,
            1,
        ),
        spoken(groups, series, 2),
    )


def _looks(planned: Sequence[Planned], models: Sequence[str]) -> dict[str, Look]:
    return looks_of({task.name: task.run.name for task in planned}, models)


def _series_by_group(
    planned: Sequence[Planned], by: str, measure: str
) -> tuple[list[str], dict[str, list[Mean]]]:
    """Return the groups in which a run has a value, and the means of each run with a value.

    Args:
        planned: The runs' tasks.
        by: A key of `GROUPS`.
        measure: A key of `MEASURES`.
    """
    groups = []
    for group in GROUPS[by]:
        if any(run.group_mean(by, group, measure).value is not None for run in planned):
            groups.append(group)
    series = {}
    for run in planned:
        means = [run.group_mean(by, group, measure) for group in groups]
        if any(mean.value is not None for mean in means):
            series[run.name] = means
    return groups, series
