"""Report the calibration of ranked choices, and conformal sets.

A probability is the softmax of the four choices' mean log-probabilities per token. Shortcut tasks,
presets, inexact runs and written letters have no row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.report.charts import finish, marker, new_figure, shade
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egoplan.answers import (
    Series,
)
from lmms_egoplan.report.egoplan.notes import INTERVAL_NOTE
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import Column, Table, interval_columns, table_of_runs
from lmms_egoplan.stats import calibration as measures
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS, why_no_interval
from lmms_egoplan.text import join_list

LEVELS = (0.8, 0.9, 0.95)
_EXCLUDED_NOTE = "Excluded: questions with a choice whose log-probability is unknown or not finite."
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Ranked:
    """The questions of a task whose choices all have finite scores.

    Attributes:
        task: Name of the task.
        scores: Mean log-probability per token of each choice.
        gold: Index of the right choice.
        videos: The questions' videos.
        excluded_ids: Ids of the other questions.
    """

    task: str
    scores: np.ndarray
    gold: np.ndarray
    videos: list[str]
    excluded_ids: list[str]

    @property
    def num_videos(self) -> int:
        """Number of distinct videos."""
        return len(set(self.videos))

    def cells(self) -> dict[str, Any]:
        """Return the counts, by column key."""
        return {
            "questions": len(self.gold),
            "videos": self.num_videos,
            "excluded": len(self.excluded_ids),
            "task": self.task,
            "ids": join_list(self.excluded_ids, 5) or None,
        }


def ranked_answers(task: Series) -> Ranked | None:
    """Return the scores of a task's choices; None if it has no samples, or is not reported here."""
    if not task.is_ranked or task.ranking_flaw or task.shortcut or not task.answers:
        return None
    scores = []
    gold = []
    videos = []
    excluded_ids = []
    for answer in task.answers.values():
        logprobs = np.array(answer.record.logprobs or [None] * len(LETTERS), dtype=float)
        if answer.cluster is None or not np.isfinite(logprobs).all():
            excluded_ids.append(answer.id)
            continue
        scores.append(logprobs)
        gold.append(LETTERS.index(str(answer.key[2])))
        videos.append(str(answer.cluster))
    return Ranked(
        task=task.task,
        scores=np.array(scores, dtype=float).reshape(-1, len(LETTERS)),
        gold=np.array(gold, dtype=int),
        videos=videos,
        excluded_ids=excluded_ids,
    )


def calibration_rows(tasks: Sequence[Series]) -> dict[str, Rows]:
    """Return the rows of the tables ``calibration``, ``prediction_sets`` and ``reliability``."""
    rows: dict[str, Rows] = {"calibration": [], "prediction_sets": [], "reliability": []}
    for task in tasks:
        ranked = ranked_answers(task)
        if ranked is None:
            continue
        row: dict[str, Any] = {"run": task.run.name} | ranked.cells()
        if ranked.num_videos < FEWEST_CLUSTERS:
            no_value = why_no_interval(ranked.num_videos, "videos")
            rows["calibration"].append(row | {"no_value": no_value})
            continue
        for cells, points in _fits(ranked):
            rows["calibration"].append(row | cells)
            rows["reliability"] += [row | cells | point | {"series": task} for point in points]
        for level in LEVELS:
            sets = measures.conformal_sets(ranked.scores, ranked.gold, ranked.videos, level)
            rows["prediction_sets"].append(row | sets)
    return rows


def _fits(ranked: Ranked) -> Iterator[tuple[dict[str, Any], Rows]]:
    """Yield the cells and the points of the probabilities, first as they are, then fitted.

    Each question's fitted temperature comes from the other videos.
    """
    yield _fit_cells(ranked, "as is", 1.0, 1.0)
    temperature = measures.fit_temperature(ranked.scores, ranked.gold)
    temperatures = measures.cross_fitted(ranked.scores, ranked.gold, ranked.videos)
    yield _fit_cells(ranked, "fitted", temperature, temperatures)


def _fit_cells(
    ranked: Ranked, kind: str, temperature: float, temperatures: Any
) -> tuple[dict[str, Any], Rows]:
    """Return the cells and the points for one way to compute probabilities.

    Args:
        kind: Its name in the tables.
        temperature: The temperature that the table shows.
        temperatures: One for all questions, or one for each.
    """
    confidence, is_right = measures.choices(ranked.scores, ranked.gold, temperatures)
    error = measures.calibration_error(confidence, is_right, ranked.videos)
    brier = measures.brier_score(ranked.scores, ranked.gold, temperatures, ranked.videos)
    cells = {
        "kind": kind,
        "temperature": temperature,
        **error.cells("ece", "ece_", 100),
        **brier.cells("brier", "brier_"),
    }
    return cells, list(measures.reliability(confidence, is_right))


def reliability_figure(spec: Spec, rows: Rows) -> Figure | None:
    """Draw the reliability diagram of the tasks with a video; None without points.

    Args:
        spec: The benchmark's specification.
        rows: Rows of the table ``reliability``.
    """
    rows_with_video = [row for row in rows if row["series"].is_main]
    groups = groupby(rows_with_video, itemgetter("run", "task", "kind"))
    lines = [list(points) for _, points in groups]
    if not lines:
        return None
    return Figure(
        f"{spec.name}_reliability",
        "Reliability of probabilities",
        "Ten points per line, each with equally many questions. Below the dotted line, the model "
        "is overconfident. Solid: the probabilities as they are. Dashed: with temperatures fitted "
        "to other videos.",
        partial(_draw_reliability, lines),
        'The table "Right choices by confidence" has the points.',
    )


def _draw_reliability(lines: Sequence[Rows]) -> Any:
    figure, axes = new_figure(5.4, 4.4)
    axes.plot([0, 100], [0, 100], color="0.15", linestyle=":", linewidth=1.2, label="calibrated")
    for points in lines:
        task = points[0]["series"]
        kind = points[0]["kind"]
        axes.plot(
            [point["confidence"] for point in points],
            [point["right"] for point in points],
            label=f"{task.short_name}, {kind}",
            markersize=5,
            color=shade(task.look),
            marker=marker(task.look),
            linestyle="-" if kind == "as is" else "--",
        )
    axes.set(
        xlim=(0, 100),
        ylim=(0, 100),
        xlabel="mean probability of the best choice, %",
        ylabel="right choices, %",
    )
    finish(axes)
    return figure


def calibration_table(benchmark: str, rows: Rows) -> Table | None:
    """Build the table of calibration errors; None without samples of ranked choices."""
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        Column("kind", "Scores"),
        Column("temperature", "Temperature", decimals=2),
        Column("ece", "ECE %", decimals=2),
        Column("ece_low", "ECE low", decimals=2, end_of="ece"),
        Column("ece_high", "ECE high", decimals=2, end_of="ece"),
        Column("brier", "Brier score", decimals=3),
        Column("brier_low", "Brier low", decimals=3, end_of="brier"),
        Column("brier_high", "Brier high", decimals=3, end_of="brier"),
        Column("questions", "Questions"),
        Column("videos", "Videos"),
        Column("excluded", "Excluded"),
        Column("ids", "Ids excluded"),
        Column("no_value", "No value"),
    )
    notes = [
        (
            "A choice's probability is the softmax of the four mean log-probabilities "
            'per token, divided by a temperature: 1 for "as is". Confidence: the '
            "probability of the best choice."
        ),
        (
            "ECE: expected calibration error over ten bins with equally many questions. Noise "
            "makes it too large; its interval takes this into account. Brier score: squared "
            "errors summed over the choices, 0 to 2; 0.75 for equal probabilities."
        ),
        (
            '"Fitted" scores use the temperature with the highest likelihood of the '
            "right choices, above 1 for overconfident models. The values are "
            "cross-validated: each question's temperature is fitted to other videos. "
            "The printed one is fitted to all."
        ),
        _EXCLUDED_NOTE,
        INTERVAL_NOTE,
    ]
    title = "Calibration of the choices' probabilities"
    return table_of_runs(f"{benchmark}_calibration", title, columns, rows, notes)


def prediction_sets_table(benchmark: str, rows: Rows) -> Table | None:
    """Build the table of conformal sets; None without samples of enough videos."""
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        Column("level", "Level %", decimals=0),
        Column("covered", "Contains the right one %", decimals=1),
        *interval_columns("covered", decimals=1),
        Column("size", "Choices in a set", decimals=2),
        Column("asks", "Asks %", decimals=1),
        Column("questions", "Questions"),
        Column("videos", "Videos"),
        Column("excluded", "Excluded"),
    )
    notes = [
        (
            "A set has all choices whose mean log-probability per token is at most a threshold "
            "below the best one. Each question's threshold is calibrated on other videos, so "
            "that sets of new videos contain the right choice as often as the level says, or "
            "more often. Asks: share of questions whose set has several choices. Each video "
            "has the same weight. Low to high: 95 % interval over the videos."
        ),
        _EXCLUDED_NOTE,
    ]
    title = "Conformal sets: how often must the model ask?"
    return table_of_runs(f"{benchmark}_prediction_sets", title, columns, rows, notes)


def reliability_table(benchmark: str, rows: Rows) -> Table | None:
    """Build the table with the points of `reliability_figure`; None without points."""
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        Column("kind", "Scores"),
        Column("confidence", "Mean confidence %", decimals=1),
        Column("right", "Right %", decimals=1),
        Column("questions", "Questions"),
    )
    notes = ["Bins of the figure, most confident first."]
    title = "Right choices by confidence"
    return table_of_runs(f"{benchmark}_reliability", title, columns, rows, notes)
