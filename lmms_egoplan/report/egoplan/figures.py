"""Figures of accuracies: by task, and by group of questions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from lmms_egoplan.report.charts import Look, line, looks_of
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egoplan.answers import (
    BLIND,
    CHANCE,
    NARRATIONS,
    NO_MODEL,
    Groups,
    Series,
)
from lmms_egoplan.report.plots import draw_lines, draw_points, spoken
from lmms_egoplan.stats.means import Mean

# Numbers of the baselines' line styles.
_LINE_STYLES = {BLIND: 1, NARRATIONS: 2}
SIMILARITY = "goal-answer similarity"


def accuracies_figure(
    tasks: Sequence[Series], baselines: Sequence[Series], models: Sequence[str]
) -> Figure | None:
    """Draw the accuracies by task; None if the main task is the only one.

    Args:
        tasks: The runs' own tasks.
        baselines: The baselines without a model.
        models: Names of all runs of the report.
    """
    scored = [task for task in (*tasks, *baselines) if task.main.value is not None]
    if all(task.task == task.of.main_task for task in scored if task in tasks):
        return None
    names = list(dict.fromkeys(task.short_task for task in scored))
    means: dict[str, list[Mean | None]] = {}
    for task in scored:
        run_means = means.setdefault(task.run.name, [None] * len(names))
        run_means[names.index(task.short_task)] = task.main
    looks = looks_of({run: None if run == NO_MODEL else run for run in means}, models)
    return Figure(
        "egoplan_accuracy",
        "Accuracy by task",
        (
            "Accuracy with 95 % intervals, clustered by video. The first task ranks the choices "
            "after the video, as in the paper. The last ones are baselines without a model."
        ),
        partial(draw_points, names, means, looks, "accuracy, %", 100, decimals=1, chance=CHANCE),
        spoken(names, means, 2),
    )


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


def past_actions_figure(groups: Groups, models: Sequence[str]) -> Figure | None:
    """Draw accuracies by number of past actions, as in Fig. 8 of the paper."""
    caption = (
        "As in Fig. 8 of the paper. The bins are this project's, as the paper does not state them."
    )
    by = "number of past actions"
    return lines_figure("egoplan_past_actions", by, by, groups, caption, models)


def similarity_figure(
    groups: Groups, measure: str, models: Sequence[str], *, is_own_model: bool
) -> Figure | None:
    """Draw accuracies by goal-answer similarity, as in Fig. 7 of the paper.

    Args:
        groups: The tasks' accuracies by level.
        measure: Name of the similarity.
        models: Names of all runs of the report.
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
    return lines_figure("egoplan_similarity", SIMILARITY, label, groups, caption, models)


def lines_figure(
    key: str, by: str, label: str, groups: Groups, caption: str, models: Sequence[str]
) -> Figure | None:
    """Draw each run's main task and the baselines by group; return None if no run has one.

    Args:
        key: The figure's key.
        by: The property that defines the groups.
        label: Label of the groups' axis.
        groups: The tasks' accuracies by group.
        caption: First sentences of the caption.
        models: Names of all runs of the report.
    """
    drawn = _drawn_series(groups)
    if not drawn:
        return None
    means = {task.short_name: _means_by_group(task, groups) for task in drawn}
    looks = _looks(drawn, models)
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
        partial(
            draw_lines, list(groups), means, looks, "accuracy, %", label, _top(all_means), CHANCE
        ),
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


def _looks(drawn: Sequence[Series], models: Sequence[str]) -> dict[str, Look]:
    """Return the looks of the lines. All blind tasks have the same style of line."""
    looks = looks_of({task.short_name: task.run.name for task in drawn}, models)
    for task in drawn:
        if task.without_video:
            style = line(_LINE_STYLES[task.without_video])
            looks[task.short_name] = replace(looks[task.short_name], line=style, is_filled=False)
    return looks
