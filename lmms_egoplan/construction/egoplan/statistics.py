"""Compute statistics of built questions: Table 2, Figures 4 and 5, `--drop` kinds, and accuracies without the video."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from statistics import fmean
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.egoplan.baselines import baseline_points
from lmms_egoplan.benchmarks.egoplan.wording import near_key, normalised
from lmms_egoplan.construction.egoplan.questions import Question
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import csv_text

# The values of `--drop`.
KINDS = ("near-equal", "concurrent", "copies", "listing-goals", "unsure-actions")


if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Columns and rows of Table 2.
COLUMNS, *TABLE_2 = module_yaml(__file__)
# Numbers of verbs, and objects per verb, in Figure 4.
_VERBS, _OBJECTS = 20, 8
# Number of words in Figure 5. The paper does not state it.
_GOAL_WORDS = 80
# Articles, conjunctions and prepositions.
_STOP_WORDS = re.compile(r"an?|and|at|by|for|from|in|into|is|its?|of|off|on|onto|or|out|the|then|to|up|using|with")
_DPI = 130
# Horizontal and vertical gap between two words, in the units of the font size.
_GAP = (7.0, 2.0)

# Left, bottom, right and top.
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Statistics:
    """Statistics of questions.

    Attributes:
        counts: Table 2's columns after the first; None for unknown scenes.
        verbs: Each verb with its number of choices, and its objects with theirs. Most frequent first (Figure 4).
        words: Words of the distinct goals with their counts, most frequent first (Figure 5).
    """

    counts: tuple[int | None, ...]
    verbs: tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]
    words: tuple[tuple[str, int], ...]


def statistics(questions: Sequence[Question]) -> Statistics:
    """Count goals, and the action plans among the choices with their verbs and objects."""
    parts = {action.text: (action.verb, action.object) for question in questions for action in question.goal.actions}
    choices = Counter(choice for question in questions for choice in question.choices)
    objects: dict[str, Counter[str]] = {}
    for choice, count in choices.items():
        verb, thing = parts[choice]
        objects.setdefault(verb, Counter())[thing] += count
    goals = {question.goal.text for question in questions}
    words = Counter(word for goal in sorted(goals) for word in re.findall(r"[^\W\d_][\w'-]+", goal.casefold()))
    scenes = {question.goal.video.scene for question in questions}
    counts = (
        len(questions),
        len(goals),
        len(choices),
        len(objects),
        len({thing for verb_objects in objects.values() for thing in verb_objects if thing}),
        None if None in scenes else len(scenes),
    )
    by_count = sorted(objects.items(), key=lambda item: (-item[1].total(), item[0]))
    verbs = tuple((verb, verb_objects.total(), _most_common(verb_objects)) for verb, verb_objects in by_count)
    return Statistics(counts, verbs, tuple(word for word in _most_common(words) if not _STOP_WORDS.fullmatch(word[0])))


def _most_common(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Sort by frequency, then by name."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def statistics_files(stats: Statistics) -> dict[str, str | bytes]:
    """Return files by name: tables as CSV, Table 2 also as Markdown, and Figures 4 and 5 as PNG images."""
    table = [COLUMNS, ("built here", *stats.counts), *TABLE_2]
    cells = [["" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in table]
    objects = [(verb, total, *thing) for verb, total, things in stats.verbs for thing in things]
    cells.insert(1, ["---", *["---:"] * (len(COLUMNS) - 1)])
    files: dict[str, str | bytes] = {
        "table_2.csv": csv_text(table),
        "table_2.md": "".join(f"| {' | '.join(row)} |\n" for row in cells),
        "figure_4.csv": csv_text([("verb", "verb_count", "object", "count"), *objects]),
        "figure_5.csv": csv_text([("word", "goals"), *stats.words]),
    }
    for name, draw in {"figure_4.png": draw_verbs, "figure_5.png": draw_goals}.items():
        image = BytesIO()
        draw(stats).savefig(image, dpi=_DPI, metadata={"Software": None})
        files[name] = image.getvalue()
    return files


def draw_verbs(stats: Statistics) -> "Figure":
    """Draw the most frequent verbs among the choices, each as a bar of its most frequent objects (Figure 4)."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    verbs = stats.verbs[:_VERBS]
    height = 1 + 0.42 * len(verbs)
    figure = Figure(figsize=(13, height))
    axes = figure.add_axes((0.09, 0.1 / height, 0.9, 1 - 0.6 / height))
    starts = [0] * len(verbs)
    for rank in range(_OBJECTS + 1):
        remaining = (total - start for (_, total, _), start in zip(verbs, starts, strict=True))
        ranked = (things[rank][1] if rank < len(things) else 0 for _, _, things in verbs)
        counts = list(ranked if rank < _OBJECTS else remaining)
        color = colormaps["YlGnBu"](0.6 - 0.06 * rank) if rank < _OBJECTS else "0.9"
        axes.barh(range(len(verbs)), counts, left=starts, color=color)
        starts = [start + count for start, count in zip(starts, counts, strict=True)]
    for row, (_, total, things) in enumerate(verbs):
        label = ", ".join(f"{thing or '(no object)'} {count:,}" for thing, count in things[:_OBJECTS])
        axes.annotate(
            label, (total, row), (6, 0), textcoords="offset points", va="center", fontsize=8, parse_math=False
        )
    highest = max((total for _, total, _ in verbs), default=1)
    axes.set_yticks(range(len(verbs)), [f"{verb}  {total:,}" for verb, total, _ in verbs], parse_math=False)
    axes.set(ylim=(len(verbs) - 0.4, -0.6), xlim=(0, 2 * highest), xticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = f"Top {len(verbs)} verbs among the choices, with their top {_OBJECTS} objects (grey: other objects)"
    axes.set_title(title, loc="left", fontsize=12)
    return figure


def draw_goals(stats: Statistics) -> "Figure":
    """Draw a word cloud of the task goals. A word's area grows with its number of goals (Figure 5)."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    figure = Figure(figsize=(10, 6))
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.92), aspect="equal")
    boxes: list[Box] = []
    highest = max((count for _, count in stats.words), default=1)
    for rank, (word, count) in enumerate(stats.words[:_GOAL_WORDS]):
        path = TextPath((0, 0), word, size=10 + 50 * math.sqrt(count / highest))
        # The box of the outline's control points is close to the one that `get_extents` computes from its curves.
        (x, y), (right, top) = path.vertices.min(axis=0), path.vertices.max(axis=0)
        x_left, bottom = _free_position(right - x, top - y, boxes)
        boxes.append((x_left, bottom, x_left + right - x, bottom + top - y))
        outline = path.transformed(Affine2D().translate(x_left - x, bottom - y))
        axes.add_patch(PathPatch(outline, color=colormaps["YlGnBu"](0.95 - 0.1 * (rank % 5)), linewidth=0))
    axes.autoscale_view()
    axes.axis("off")
    axes.set_title("Words of the task goals; larger words occur in more goals", loc="left", fontsize=12)
    return figure


def _free_position(width: float, height: float, boxes: Sequence[Box]) -> tuple[float, float]:
    """Return x_left and bottom of the first position on a flat spiral where a box overlaps no other."""
    turn = 0.0
    while True:
        x_left, bottom = 3 * turn * math.cos(turn) - width / 2, 1.5 * turn * math.sin(turn) - height / 2
        right, top = x_left + width, bottom + height
        if all(
            right + _GAP[0] < box[0] or box[2] + _GAP[0] < x_left or top + _GAP[1] < box[1] or box[3] + _GAP[1] < bottom
            for box in boxes
        ):
            return x_left, bottom
        turn += 0.7 / (1 + turn / 8)


def counts(questions: Sequence[Question]) -> dict[str, int]:
    """Count the questions, or goals, of each kind except "unsure-actions", which are in no question."""
    moments = Counter(question.moment for question in questions)
    goals = {id(question.goal): question.goal for question in questions}.values()
    return {
        "near-equal": sum(len(set(map(near_key, question.choices))) < len(question.choices) for question in questions),
        "concurrent": sum(not item.concurrent.isdisjoint(map(normalised, item.choices)) for item in questions),
        "copies": sum(moments[question.moment] > 1 for question in questions),
        "listing-goals": sum(goal.lists_actions() for goal in goals),
    }


def accuracies(questions: Sequence[Question]) -> dict[str, float]:
    """Return accuracies of chance and of the baselines that do not see the video, see `baseline_points`."""
    docs = [
        {"video_id": item.moment[0], "task_goal": item.goal.text, "choices": item.choices, "answer": item.answer}
        | {"past_actions": [{"narration_text": action.text} for action in item.past]}
        for item in questions
    ]
    means = {name: round(fmean(points), 4) for name, points in baseline_points(docs).items()}
    return {"n": len(questions), "chance": fmean(1 / len(item.choices) for item in questions)} | means
