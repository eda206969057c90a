"""Compute statistics of published or built questions: Table 2, Figures 4 and 5."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.prepared_counts import png_of
from lmms_egoplan.text import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = [
    "split",
    "questions",
    "task goals",
    "action plans (verb+object)",
    "verbs",
    "objects",
    "scenes",
]
"""Columns of Table 2."""
TABLE_2: list[list[Any]] = [
    ["EgoPlan-Val", 3355, 2407, 2538, 202, 496, 279],
    ["EgoPlan-Test", 1584, 902, 1492, 160, 313, 317],
    ["EgoPlan-Bench", 4939, 3269, 3185, 234, 558, 419],
]
"""Rows of Table 2."""
COUNTS = ("questions", "task_goals", "action_plans", "verbs", "objects", "scenes")
"""Names of the columns after the first in summaries."""
ARTICLES = frozenset(("a", "an", "the"))
_PREPOSITIONS = frozenset(
    (
        "about",
        "across",
        "against",
        "and",
        "around",
        "at",
        "away",
        "back",
        "behind",
        "beside",
        "between",
        "by",
        "down",
        "for",
        "from",
        "in",
        "inside",
        "into",
        "near",
        "of",
        "off",
        "on",
        "onto",
        "out",
        "over",
        "through",
        "to",
        "together",
        "towards",
        "under",
        "up",
        "using",
        "with",
    )
)
NO_OBJECTS = ARTICLES | _PREPOSITIONS
"""Words that end an object or separate it from its verb.

In "put down plate on table", these are "down" and "on".
"""
# Numbers of verbs, and objects per verb, in Figure 4.
_VERBS = 20
_OBJECTS = 8
# Number of words in Figure 5. The paper does not state it.
_GOAL_WORDS = 80
# Articles, conjunctions and prepositions.
_STOP_WORDS = re.compile(
    r"an?|and|at|by|for|from|in|into|is|its?|of|off|on|onto|or|out|the|then|to|up|using|with"
)
# Horizontal and vertical gap between two words, in the units of the font size.
_GAP = (7.0, 2.0)

Texts = tuple[str, Sequence[str], str | None]
"""Goal, choices and scene of a question; the scene is None if unknown."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of questions.

    Attributes:
        counts: Table 2's columns after the first; None for unknown scenes.
        verbs: Each verb with its number of choices, and its objects with theirs. Most frequent
            first (Figure 4).
        words: Words of the distinct goals with their counts, most frequent first (Figure 5).
    """

    counts: tuple[int | None, ...]
    verbs: tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]
    words: tuple[tuple[str, int], ...]


def verb_and_object(phrase: str) -> tuple[str, str]:
    """Return the first word of a phrase, and its object.

    >>> verb_and_object("put down the chopping board on counter")
    ('put', 'chopping board')
    """
    verb, *words = re.findall(r"[\w'-]+", phrase.casefold()) or [""]
    rest = dropwhile(NO_OBJECTS.__contains__, words)
    return verb, " ".join(takewhile(lambda word: word not in NO_OBJECTS, rest))


def texts_of(question: Any) -> Texts:
    """Return the goal, the choices and the scene of a published record."""
    scene = _scene(question.video_source, question.video_id)
    return question.task_goal, question.choices, scene


def texts_of_row(row: Mapping[str, Any]) -> Texts:
    """Return the goal, the choices and the scene of a prepared row."""
    return row["task_goal"], row["choices"], _scene(row["video_source"], row["video_id"])


def _scene(source: str, video_id: str) -> str:
    """Return a participant's kitchen in EPIC-KITCHENS, or a video of Ego4D.

    The paper does not define scenes.
    """
    return video_id.split("_")[0] if source == EPIC_KITCHENS else video_id


def statistics(
    questions: Iterable[Texts], parts: Callable[[str], tuple[str, str]] = verb_and_object
) -> Statistics:
    """Count goals, and the action plans among the choices with their verbs and objects.

    Args:
        questions: Goal, choices and scene of each question.
        parts: Returns verb and object of a choice. The default rule is this project's; the paper
            does not state one.

    >>> tea = ("make tea", ["take the cup", "pour water"], "P01")
    >>> statistics([tea, ("drink", ["take cup", "stir"], "P02")]).counts
    (2, 2, 4, 3, 2, 2)
    """
    questions = list(questions)
    choices = Counter(choice for _, texts, _ in questions for choice in texts)
    objects_of_verb: dict[str, Counter[str]] = {}
    for choice, count in choices.items():
        verb, thing = parts(choice)
        objects_of_verb.setdefault(verb, Counter())[thing] += count
    objects: set[str] = set()
    for verb_objects in objects_of_verb.values():
        objects.update(verb_objects)
    objects.discard("")
    goals = {goal for goal, _, _ in questions}
    scenes = {scene for _, _, scene in questions}
    counts = (
        len(questions),
        len(goals),
        len(choices),
        len(objects_of_verb),
        len(objects),
        None if None in scenes else len(scenes),
    )
    return Statistics(counts, _verbs_by_count(objects_of_verb), _goal_words(goals))


def _verbs_by_count(
    objects_of_verb: Mapping[str, Counter[str]],
) -> tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]:
    """Return each verb with its number of choices and its objects, as in `Statistics`."""
    totals = Counter({verb: objects.total() for verb, objects in objects_of_verb.items()})
    return tuple(
        (verb, total, _most_common(objects_of_verb[verb])) for verb, total in _most_common(totals)
    )


def _goal_words(goals: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return the words of goals with their counts, most frequent first, without stop words."""
    words = Counter[str]()
    for goal in goals:
        words.update(re.findall(r"[^\W\d_][\w'-]+", goal.casefold()))
    return tuple(
        (word, count) for word, count in _most_common(words) if not _STOP_WORDS.fullmatch(word)
    )


def _most_common(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Sort by frequency, then by name."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def statistics_files(by_name: Mapping[str, Statistics]) -> dict[str, str | bytes]:
    """Return tables as CSV, Table 2 also as Markdown, and Figures 4 and 5 as PNG images.

    Args:
        by_name: Statistics by name, at least one. A name such as "EgoPlan-Val, counted", of a row
            of Table 2, adds the differences from that row. The figures show the last statistics.

    Returns:
        The files' contents by name.
    """
    rows = _table_2_rows(by_name)
    last_name, last_stats = list(by_name.items())[-1]
    verb_rows = []
    for verb, verb_count, object_counts in last_stats.verbs:
        verb_rows += [(verb, verb_count, name, count) for name, count in object_counts]
    return {
        "table_2.csv": csv_text([COLUMNS, *rows]),
        "table_2.md": _markdown_table(COLUMNS, rows),
        "figure_4.csv": csv_text([("verb", "verb_count", "object", "count"), *verb_rows]),
        "figure_4.png": png_of(draw_verbs(last_stats, last_name)),
        "figure_5.csv": csv_text([("word", "goals"), *last_stats.words]),
        "figure_5.png": png_of(draw_goals(last_stats, last_name)),
    }


def _table_2_rows(by_name: Mapping[str, Statistics]) -> list[list[Any]]:
    """Return the rows of statistics, their differences from the paper, and the paper's rows."""
    paper = {f"{name}, counted": numbers for name, *numbers in TABLE_2}
    rows: list[list[Any]] = []
    for name, stats in by_name.items():
        rows.append([name, *stats.counts])
        if name in paper:
            differences = np.array(stats.counts, float) - paper[name]
            cells = [f"{difference:+.0f}" for difference in differences]
            rows.append(["difference from the paper", *cells])
    return rows + TABLE_2


def _markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table whose first column is text and whose others are numbers."""
    lines = [list(columns), ["---"] + ["---:"] * (len(columns) - 1)]
    for row in rows:
        lines.append([_markdown_cell(cell) for cell in row])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown_cell(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)


def draw_verbs(stats: Statistics, name: str) -> "Figure":
    """Draw the most frequent verbs among the choices (Figure 4).

    Each is a bar of its most frequent objects.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    verbs = stats.verbs[:_VERBS]
    height = 1 + 0.42 * len(verbs)
    figure = Figure(figsize=(13, height))
    axes = figure.add_axes((0.09, 0.1 / height, 0.9, 1 - 0.6 / height))
    totals = [total for _, total, _ in verbs]
    axes.barh(range(len(verbs)), totals, color="0.9", edgecolor="white", linewidth=0.8)
    for rank in range(_OBJECTS - 1, -1, -1):  # each bar covers the one before except its last part
        ends = []
        for _, _, things in verbs:
            ends.append(sum(count for _, count in things[: rank + 1]))
        color = colormaps["YlGnBu"](0.6 - 0.06 * rank)
        axes.barh(range(len(verbs)), ends, color=color, edgecolor="white", linewidth=0.8)
    for row, (_, total, things) in enumerate(verbs):
        text = ", ".join(
            f"{thing or '(no object)'} {count:,}" for thing, count in things[:_OBJECTS]
        )
        axes.annotate(
            text,
            (total, row),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            parse_math=False,
        )
    axes.set_yticks(
        range(len(verbs)), [f"{verb}  {total:,}" for verb, total, _ in verbs], parse_math=False
    )
    axes.set(ylim=(len(verbs) - 0.4, -0.6), xlim=(0, 2 * verbs[0][1]), xticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = (
        f"{name}: top {len(verbs)} verbs among the choices, with their top {_OBJECTS} "
        "objects (last: all others)"
    )
    axes.set_title(title, loc="left", fontsize=12)
    return figure


def draw_goals(stats: Statistics, name: str) -> "Figure":
    """Draw a word cloud of the task goals (Figure 5).

    A word's area grows with its number of goals.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    figure = Figure(figsize=(10, 6))
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.92), aspect="equal")
    boxes: list[tuple[float, ...]] = []  # left, bottom, right and top
    for rank, (word, count) in enumerate(stats.words[:_GOAL_WORDS]):
        path = TextPath((0, 0), word, size=10 + 50 * math.sqrt(count / stats.words[0][1]))
        # The box of the outline's control points is close to the one that `get_extents` computes
        # from its curves.
        x, y = path.vertices.min(axis=0)
        right, top = path.vertices.max(axis=0)
        x_left, bottom = _free_position(right - x, top - y, boxes)
        boxes.append((x_left, bottom, x_left + right - x, bottom + top - y))
        outline = path.transformed(Affine2D().translate(x_left - x, bottom - y))
        axes.add_patch(
            PathPatch(outline, color=colormaps["YlGnBu"](0.95 - 0.1 * (rank % 5)), linewidth=0)
        )
    axes.autoscale_view()
    axes.axis("off")
    axes.set_title(
        f"{name}: words of the task goals; larger words occur in more goals",
        loc="left",
        fontsize=12,
    )
    return figure


def _free_position(
    width: float, height: float, boxes: Sequence[Any], count: int = 1000
) -> tuple[float, float]:
    """Return left and bottom of the first position on a flat spiral where a box overlaps none.

    Args:
        boxes: Left, bottom, right and top of the boxes placed so far.
        count: Number of positions to try first.
    """
    turns = np.sqrt(64 + 11.2 * np.arange(count)) - 8
    x_left = 3 * turns * np.cos(turns) - width / 2
    bottom = 1.5 * turns * np.sin(turns) - height / 2
    start, low, stop, high = np.array(boxes).reshape(-1, 4, 1).transpose(1, 0, 2)
    is_beside = np.maximum(start - x_left - width, x_left - stop) > _GAP[0]
    is_above_or_below = np.maximum(low - bottom - height, bottom - high) > _GAP[1]
    free = np.flatnonzero((is_beside | is_above_or_below).all(axis=0))
    if not len(free):
        return _free_position(width, height, boxes, 4 * count)
    return float(x_left[free[0]]), float(bottom[free[0]])
