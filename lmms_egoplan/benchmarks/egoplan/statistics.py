"""Compute statistics of published or built questions: Table 2, Figures 4 and 5."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.prepared_counts import png_of
from lmms_egoplan.text import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEXTS = module_yaml(__file__)
# Columns and rows of Table 2.
COLUMNS, *TABLE_2 = _TEXTS["table 2"]
# Names of the columns after the first in summaries.
COUNTS = ("questions", "task_goals", "action_plans", "verbs", "objects", "scenes")
# `NO_OBJECTS` end an object or separate it from its verb: "down" and "on" in "put down plate on
# table".
ARTICLES, NO_OBJECTS = map(
    frozenset, (_TEXTS["articles"], _TEXTS["articles"] + _TEXTS["no objects"])
)
# Numbers of verbs, and objects per verb, in Figure 4.
_VERBS, _OBJECTS = 20, 8
# Number of words in Figure 5. The paper does not state it.
_GOAL_WORDS = 80
# Articles, conjunctions and prepositions.
_STOP_WORDS = re.compile(
    r"an?|and|at|by|for|from|in|into|is|its?|of|off|on|onto|or|out|the|then|to|up|using|with"
)
# Horizontal and vertical gap between two words, in the units of the font size.
_GAP = (7.0, 2.0)

# Goal, choices and scene of a question; the scene is None if unknown.
Shown = tuple[str, Sequence[str], str | None]


class Statistics(NamedTuple):
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


def texts_of(question: Any) -> Shown:
    """Return the goal, the choices and the scene of a published record or prepared row.

    The paper does not define scenes. Here, a scene is a participant's kitchen in EPIC-KITCHENS, or
    a video of Ego4D.
    """
    video = question.video_id
    return (
        question.task_goal,
        question.choices,
        video.split("_")[0] if question.video_source == EPIC_KITCHENS else video,
    )


def statistics(
    questions: Iterable[Shown], parts: Callable[[str], tuple[str, str]] = verb_and_object
) -> Statistics:
    """Count goals, and the action plans among the choices with their verbs and objects.

    Args:
        questions: Goal, choices and scene of each question.
        parts: Returns verb and object of a choice. The default rule is this project's; the paper
            does not state one.

    >>> statistics([("make tea", ["take the cup", "pour water"], "P01"), ("drink", ["take cup", "stir"], "P02")]).counts
    (2, 2, 4, 3, 2, 2)
    """
    questions = list(questions)
    choices = Counter(choice for _, texts, _ in questions for choice in texts)
    objects: dict[str, Counter[str]] = {}
    for choice, count in choices.items():
        verb, thing = parts(choice)
        objects.setdefault(verb, Counter())[thing] += count
    goals = {goal for goal, _, _ in questions}
    words = Counter(
        word for goal in sorted(goals) for word in re.findall(r"[^\W\d_][\w'-]+", goal.casefold())
    )
    scenes = {scene for _, _, scene in questions}
    things = {thing for verb_objects in objects.values() for thing in verb_objects if thing}
    counts = (
        *map(len, (questions, goals, choices, objects, things)),
        None if None in scenes else len(scenes),
    )
    by_count = sorted(objects.items(), key=lambda item: (-item[1].total(), item[0]))
    verbs = tuple(
        (verb, verb_objects.total(), _most_common(verb_objects)) for verb, verb_objects in by_count
    )
    return Statistics(
        counts,
        verbs,
        tuple(word for word in _most_common(words) if not _STOP_WORDS.fullmatch(word[0])),
    )


def _most_common(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Sort by frequency, then by name."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def statistics_files(by_name: Mapping[str, Statistics]) -> dict[str, str | bytes]:
    """Return files by name: tables as CSV, Table 2 also as Markdown, and Figures 4 and 5 as PNG
    images.

    Args:
        by_name: Statistics by name, at least one. For a row of Table 2 and ", counted", the
            differences are added. The figures show the last ones.
    """
    paper = {f"{name}, counted": numbers for name, *numbers in TABLE_2}
    table: list[list[Any]] = [COLUMNS]
    for name, stats in by_name.items():
        table.append([name, *stats.counts])
        if name in paper:
            table.append(
                [
                    _TEXTS["difference"],
                    *(f"{x:+.0f}" for x in np.array(stats.counts, float) - paper[name]),
                ]
            )
    table += TABLE_2
    cells = [
        ["" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell for cell in row]
        for row in table
    ]
    objects = [(verb, total, *thing) for verb, total, things in stats.verbs for thing in things]
    cells.insert(1, ["---", *["---:"] * (len(COLUMNS) - 1)])
    return {
        "table_2.csv": csv_text(table),
        "table_2.md": "".join(f"| {' | '.join(row)} |\n" for row in cells),
        "figure_4.csv": csv_text([("verb", "verb_count", "object", "count"), *objects]),
        "figure_4.png": png_of(draw_verbs(stats, name)),
        "figure_5.csv": csv_text([("word", "goals"), *stats.words]),
        "figure_5.png": png_of(draw_goals(stats, name)),
    }


def draw_verbs(stats: Statistics, name: str) -> "Figure":
    """Draw the most frequent verbs among the choices, each as a bar of its most frequent objects
    (Figure 4).
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    verbs = stats.verbs[:_VERBS]
    height = 1 + 0.42 * len(verbs)
    figure = Figure(figsize=(13, height))
    axes = figure.add_axes((0.09, 0.1 / height, 0.9, 1 - 0.6 / height))
    for rank in range(_OBJECTS, -1, -1):  # each bar covers the one before except for its last part
        ends = [
            sum(count for _, count in things[: rank + 1]) if rank < _OBJECTS else total
            for _, total, things in verbs
        ]
        color = colormaps["YlGnBu"](0.6 - 0.06 * rank) if rank < _OBJECTS else "0.9"
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
    """Draw a word cloud of the task goals. A word's area grows with its number of goals (Figure 5)."""
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
        (x, y), (right, top) = path.vertices.min(axis=0), path.vertices.max(axis=0)
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
    """Return x_left and bottom of the first of `count` or more positions on a flat spiral where a
    box overlaps none.
    """
    turns = np.sqrt(64 + 11.2 * np.arange(count)) - 8
    x_left, bottom = 3 * turns * np.cos(turns) - width / 2, 1.5 * turns * np.sin(turns) - height / 2
    start, low, stop, high = np.array(boxes).reshape(-1, 4, 1).transpose(1, 0, 2)
    is_beside = np.maximum(start - x_left - width, x_left - stop) > _GAP[0]
    is_above_or_below = np.maximum(low - bottom - height, bottom - high) > _GAP[1]
    free = np.flatnonzero((is_beside | is_above_or_below).all(axis=0))
    if not len(free):
        return _free_position(width, height, boxes, 4 * count)
    return float(x_left[free[0]]), float(bottom[free[0]])
