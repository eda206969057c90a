"""Report the calibration of ranked choices, and conformal sets.

A probability is the softmax of the four choices' mean log-probabilities per token. Shortcut tasks,
presets, inexact runs and written letters have no row.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.report.charts import COLUMN, GRID, INK, SMALLEST, TEXT, Look, looks_of, wrapped
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egoplan.answers import (
    Series,
)
from lmms_egoplan.report.egoplan.notes import INTERVAL_NOTE
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import Column, Table, interval_columns, table_of_runs
from lmms_egoplan.stats import calibration as measures
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS, why_no_interval
from lmms_egoplan.text import counted, join_list

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

LEVELS = (0.8, 0.9, 0.95)
FEWEST_QUESTIONS = 100
"""Smallest number of questions for a reliability diagram: ten in each of its points."""
# Panels next to each other, their height in inches, and characters of their titles per line.
_PANELS = 2
_PANEL_HEIGHT = 1.75
_TITLE = 22
AS_IS = "as is"
"""Name of the probabilities without a fitted temperature."""
_COUNT_COLUMNS = (
    Column("questions", "Questions", is_condition=True),
    Column("videos", "Videos", is_condition=True),
    Column(
        "excluded",
        "Excluded",
        note="Excluded: questions with a choice whose log-probability is unknown or not finite.",
        is_condition=True,
    ),
)
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
    """Return the rows of the tables ``calibration``, ``prediction_sets`` and ``reliability``.

    ``no_diagram`` has the tasks without rows of ``reliability``, each with the reason.
    """
    rows: dict[str, Rows] = {
        "calibration": [],
        "prediction_sets": [],
        "reliability": [],
        "no_diagram": [],
    }
    for task in tasks:
        ranked = ranked_answers(task)
        if ranked is None:
            continue
        row: dict[str, Any] = {"run": task.run.name} | ranked.cells()
        if ranked.num_videos < FEWEST_CLUSTERS:
            no_value = why_no_interval(ranked.num_videos, "videos")
            rows["calibration"].append(row | {"no_value": no_value})
            rows["no_diagram"].append(row | {"series": task, "why": no_value})
            continue
        for fit in _fits(ranked):
            rows["calibration"].append(row | _fit_cells(ranked, fit))
            points = _points(ranked, fit)
            why = _why_no_diagram(ranked, points)
            if not why:
                fit_row = row | {"kind": fit.kind, "series": task}
                rows["reliability"] += [fit_row | point for point in points]
            elif fit.kind == AS_IS:
                rows["no_diagram"].append(row | {"series": task, "why": why})
        for level in LEVELS:
            sets = measures.conformal_sets(ranked.scores, ranked.gold, ranked.videos, level)
            rows["prediction_sets"].append(row | sets)
    return rows


@dataclass(frozen=True)
class _Fit:
    """A way to compute probabilities.

    Attributes:
        kind: Its name in the tables.
        temperature: The temperature that the table shows.
        temperatures: One for all questions, or one for each.
    """

    kind: str
    temperature: float
    temperatures: Any


def _fits(ranked: Ranked) -> Iterator[_Fit]:
    """Yield the probabilities as they are, then fitted.

    Each question's fitted temperature comes from the other videos.
    """
    yield _Fit(AS_IS, 1.0, 1.0)
    temperature = measures.fit_temperature(ranked.scores, ranked.gold)
    temperatures = measures.cross_fitted(ranked.scores, ranked.gold, ranked.videos)
    yield _Fit("fitted", temperature, temperatures)


def _fit_cells(ranked: Ranked, fit: _Fit) -> dict[str, Any]:
    """Return the calibration error and the Brier score."""
    confidence, is_right = measures.choices(ranked.scores, ranked.gold, fit.temperatures)
    error = measures.calibration_error(confidence, is_right, ranked.videos)
    brier = measures.brier_score(ranked.scores, ranked.gold, fit.temperatures, ranked.videos)
    return {
        "kind": fit.kind,
        "temperature": fit.temperature,
        **error.cells("ece", "ece_", 100),
        **brier.cells("brier", "brier_"),
    }


def _points(ranked: Ranked, fit: _Fit) -> Rows:
    """Return the points of the reliability diagram; none for too few questions."""
    if len(ranked.gold) < FEWEST_QUESTIONS:
        return []
    confidence, is_right = measures.choices(ranked.scores, ranked.gold, fit.temperatures)
    return list(measures.reliability(confidence, is_right, ranked.videos))


def _why_no_diagram(ranked: Ranked, points: Rows) -> str:
    """Return the reason why there is no reliability diagram; "" if there is one."""
    if len(ranked.gold) < FEWEST_QUESTIONS:
        return f"{counted(len(ranked.gold), 'questions')}, fewer than {FEWEST_QUESTIONS}"
    if any(point["low"] is None for point in points):
        return f"a point has questions about fewer than {FEWEST_CLUSTERS} videos, so it has no band"
    return ""


def missing_diagrams(rows: Rows) -> Iterator[str]:
    """Say in one sentence which tasks have no reliability diagram, and why.

    Args:
        rows: Rows ``no_diagram`` of `calibration_rows`.
    """
    reasons = [
        f"{row['series'].short_name} ({row['why']})" for row in rows if row["series"].is_main
    ]
    if reasons:
        yield f"No reliability diagram: {'; '.join(reasons)}."


def reliability_figure(spec: Spec, rows: Rows, models: Sequence[str]) -> Figure | None:
    """Draw a reliability diagram of each task with a video; None without points.

    Args:
        spec: The benchmark's specification.
        rows: Rows of the table ``reliability``.
        models: Names of all runs of the report.
    """
    drawn = [row for row in rows if row["series"].is_main and row["kind"] == AS_IS]
    panels = {
        name: list(points) for name, points in groupby(drawn, lambda row: row["series"].short_name)
    }
    if not panels:
        return None
    runs = {name: points[0]["run"] for name, points in panels.items()}
    return Figure(
        f"{spec.name}_reliability",
        "Reliability of probabilities",
        "Ten points per run, each with equally many questions. Below the dotted line, the model "
        "is overconfident. Bands: 95 % intervals of the share of right choices in each point, "
        "over videos. The table has the same points with fitted temperatures.",
        partial(draw_reliability, panels, looks_of(runs, models)),
        'The table "Right choices by confidence" has the points.',
    )


def draw_reliability(panels: Mapping[str, Rows], looks: Mapping[str, Look]) -> "Drawing":
    """Draw the points of each task, by its name, in a panel of its own."""
    from matplotlib.figure import Figure as Drawing

    num_columns = min(_PANELS, len(panels))
    num_rows = math.ceil(len(panels) / num_columns)
    figure = Drawing(
        figsize=(COLUMN, 0.3 + _PANEL_HEIGHT * num_rows), layout="constrained", facecolor="white"
    )
    all_axes = figure.subplots(num_rows, num_columns, sharex=True, sharey=True, squeeze=False)
    for axes, (name, points) in zip(all_axes.flat, panels.items(), strict=False):
        _draw_panel(axes, name, points, looks[name])
    for axes in all_axes.flat[len(panels) :]:
        axes.remove()
    # The last panel of a column has the label and the numbers of its axis.
    style: dict[str, Any] = {"fontsize": TEXT, "color": INK}
    for axes in all_axes.flat[max(0, len(panels) - num_columns) : len(panels)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("mean probability\nof the best choice, %", **style)
    figure.supylabel("right choices, %\nband: 95 % interval", **style)
    return figure


def _draw_panel(axes: "Axes", name: str, points: Rows, look: Look) -> None:
    """Draw a task's points with their band."""
    confidence = [point["confidence"] for point in points]
    lows = [point["low"] for point in points]
    highs = [point["high"] for point in points]
    axes.plot([0, 100], [0, 100], color=INK, linestyle=":", linewidth=1)
    axes.fill_between(confidence, lows, highs, color=look.colour, alpha=0.25, linewidth=0)
    axes.plot(
        confidence,
        [point["right"] for point in points],
        color=look.colour,
        linewidth=1.2,
        clip_on=False,
        **look.of_points() | {"markersize": 4},
    )
    num_questions = sum(point["questions"] for point in points)
    axes.set_title(
        f"{wrapped(name, _TITLE)}\nn = {num_questions:,}",
        fontsize=SMALLEST,
        color=INK,
        parse_math=False,
    )
    axes.set(xlim=(0, 100), ylim=(0, 100), xticks=[0, 50, 100], yticks=[0, 50, 100])
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=SMALLEST, color=INK, labelcolor=INK)


def calibration_table(benchmark: str, rows: Rows) -> Table | None:
    """Build the table of calibration errors; None without samples of ranked choices."""
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task", is_condition=True),
        Column("kind", "Scores"),
        Column("temperature", "Temperature", decimals=2),
        Column("ece", "ECE %", decimals=2),
        Column("ece_low", "ECE low", decimals=2, end_of="ece"),
        Column("ece_high", "ECE high", decimals=2, end_of="ece"),
        Column("brier", "Brier score", decimals=3),
        Column("brier_low", "Brier low", decimals=3, end_of="brier"),
        Column("brier_high", "Brier high", decimals=3, end_of="brier"),
        *_COUNT_COLUMNS,
        Column("ids", "Ids excluded"),
        Column("no_value", "No value", is_condition=True),
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
        Column("task", "Task", is_condition=True),
        Column("level", "Level %", decimals=0),
        Column("covered", "Contains the right one %", decimals=1),
        *interval_columns("covered", decimals=1),
        Column("size", "Choices in a set", decimals=2),
        Column("asks", "Asks %", decimals=1),
        *_COUNT_COLUMNS,
    )
    notes = [
        (
            "A set has all choices whose mean log-probability per token is at most a threshold "
            "below the best one. Each question's threshold is calibrated on other videos, so "
            "that sets of new videos contain the right choice as often as the level says, or "
            "more often. Asks: share of questions whose set has several choices. Each video "
            "has the same weight. Low to high: 95 % interval over the videos."
        ),
    ]
    title = "Conformal sets: how often must the model ask?"
    return table_of_runs(f"{benchmark}_prediction_sets", title, columns, rows, notes)


def reliability_table(benchmark: str, rows: Rows) -> Table | None:
    """Build the table with the points of `reliability_figure`; None without points."""
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task", is_condition=True),
        Column("kind", "Scores"),
        Column("confidence", "Mean confidence %", decimals=1),
        Column("right", "Right %", decimals=1),
        *interval_columns("right", decimals=1),
        Column("questions", "Questions"),
    )
    notes = [
        "Bins of the figure, most confident first. Low to high: 95 % interval by Wilson over "
        f"videos. Tasks with fewer than {FEWEST_QUESTIONS} questions have no bins."
    ]
    title = "Right choices by confidence"
    return table_of_runs(f"{benchmark}_reliability", title, columns, rows, notes)
