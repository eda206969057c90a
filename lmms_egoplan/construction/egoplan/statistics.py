"""Statistics of built questions: Table 2, Figures 4 and 5, the kinds of `--drop`, and accuracies without the video."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from statistics import fmean
from typing import TYPE_CHECKING

from lmms_egoplan.construction.egoplan.narrations import normalised
from lmms_egoplan.construction.egoplan.questions import Question
from lmms_egoplan.construction.egoplan.wording import content, near_key
from lmms_egoplan.text import csv_text

# What `--drop` takes.
KINDS = ("near-equal", "concurrent", "copies", "listing-goals", "unsure-actions")


if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Table 2's columns and rows.
COLUMNS = ("split", "questions", "task goals", "action plans (verb+object)", "verbs", "objects", "scenes")
TABLE_2 = (
    ("EgoPlan-Val", 3355, 2407, 2538, 202, 496, 279),
    ("EgoPlan-Test", 1584, 902, 1492, 160, 313, 317),
    ("EgoPlan-Bench", 4939, 3269, 3185, 234, 558, 419),
)
# Figure 4.
_VERBS, _OBJECTS = 20, 8
# Of Figure 5, which does not tell how many words it shows.
_GOAL_WORDS = 80
# Articles, conjunctions and prepositions.
_STOP_WORDS = re.compile(r"an?|and|at|by|for|from|in|into|is|its?|of|off|on|onto|or|out|the|then|to|up|using|with")
_DPI = 130
# Between two words, across and up, in the units of their size.
_GAP = (7.0, 2.0)

# Left, bottom, right and top.
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Statistics:
    """What questions hold.

    counts: behind Table 2's first column; None for scenes that nobody tells. verbs: with how often choices have them,
    and their objects likewise, most frequent first (Figure 4). words: of the distinct goals, likewise (Figure 5).
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
        len({thing for found in objects.values() for thing in found if thing}),
        None if None in scenes else len(scenes),
    )
    by_count = sorted(objects.items(), key=lambda item: (-item[1].total(), item[0]))
    verbs = tuple((verb, found.total(), _most_common(found)) for verb, found in by_count)
    return Statistics(counts, verbs, tuple(word for word in _most_common(words) if not _STOP_WORDS.fullmatch(word[0])))


def _most_common(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Sort by frequency, then by name."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def statistics_files(found: Statistics) -> dict[str, str | bytes]:
    """Return files by name: tables as CSV, Table 2 as Markdown, too, and Figures 4 and 5 as pictures."""
    table = [COLUMNS, ("built here", *found.counts), *TABLE_2]
    shown = [["" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in table]
    objects = [(verb, total, *thing) for verb, total, things in found.verbs for thing in things]
    shown.insert(1, ["---", *["---:"] * (len(COLUMNS) - 1)])
    files: dict[str, str | bytes] = {
        "table_2.csv": csv_text(table),
        "table_2.md": "".join(f"| {' | '.join(row)} |\n" for row in shown),
        "figure_4.csv": csv_text([("verb", "verb_count", "object", "count"), *objects]),
        "figure_5.csv": csv_text([("word", "goals"), *found.words]),
    }
    for name, draw in {"figure_4.png": draw_verbs, "figure_5.png": draw_goals}.items():
        picture = BytesIO()
        draw(found).savefig(picture, dpi=_DPI, metadata={"Software": None})
        files[name] = picture.getvalue()
    return files


def draw_verbs(found: Statistics) -> "Figure":
    """Draw the most frequent verbs among the choices, each a bar of its most frequent objects (Figure 4)."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    verbs = found.verbs[:_VERBS]
    height = 1 + 0.42 * len(verbs)
    figure = Figure(figsize=(13, height))
    axes = figure.add_axes((0.09, 0.1 / height, 0.9, 1 - 0.6 / height))
    left = [0] * len(verbs)
    for rank in range(_OBJECTS + 1):
        others = (total - start for (_, total, _), start in zip(verbs, left, strict=True))
        ranked = (things[rank][1] if rank < len(things) else 0 for _, _, things in verbs)
        counts = list(ranked if rank < _OBJECTS else others)
        color = colormaps["YlGnBu"](0.6 - 0.06 * rank) if rank < _OBJECTS else "0.9"
        axes.barh(range(len(verbs)), counts, left=left, color=color)
        left = [start + count for start, count in zip(left, counts, strict=True)]
    for place, (_, total, things) in enumerate(verbs):
        named = ", ".join(f"{thing or '(no object)'} {count:,}" for thing, count in things[:_OBJECTS])
        axes.annotate(
            named, (total, place), (6, 0), textcoords="offset points", va="center", fontsize=8, parse_math=False
        )
    most = max((total for _, total, _ in verbs), default=1)
    axes.set_yticks(range(len(verbs)), [f"{verb}  {total:,}" for verb, total, _ in verbs], parse_math=False)
    axes.set(ylim=(len(verbs) - 0.4, -0.6), xlim=(0, 2 * most), xticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = f"Top {len(verbs)} verbs among the choices, with their top {_OBJECTS} objects; grey: other objects"
    axes.set_title(title, loc="left", fontsize=12)
    return figure


def draw_goals(found: Statistics) -> "Figure":
    """Draw a cloud of the words of task goals; a word's area grows with the number of goals (Figure 5)."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    figure = Figure(figsize=(10, 6))
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.92), aspect="equal")
    boxes: list[Box] = []
    most = max((count for _, count in found.words), default=1)
    for rank, (word, count) in enumerate(found.words[:_GOAL_WORDS]):
        path = TextPath((0, 0), word, size=10 + 50 * math.sqrt(count / most))
        # Of the outline's control points, which is nearly what `get_extents` computes from its curves.
        (x, y), (right, top) = path.vertices.min(axis=0), path.vertices.max(axis=0)
        left, bottom = _free_place(right - x, top - y, boxes)
        boxes.append((left, bottom, left + right - x, bottom + top - y))
        moved = path.transformed(Affine2D().translate(left - x, bottom - y))
        axes.add_patch(PathPatch(moved, color=colormaps["YlGnBu"](0.95 - 0.1 * (rank % 5)), linewidth=0))
    axes.autoscale_view()
    axes.axis("off")
    axes.set_title("Words of the task goals; the larger, the more goals have it", loc="left", fontsize=12)
    return figure


def _free_place(width: float, height: float, boxes: Sequence[Box]) -> tuple[float, float]:
    """Return left and bottom of the first place on a flat spiral at which a box overlaps no other."""
    turn = 0.0
    while True:
        left, bottom = 3 * turn * math.cos(turn) - width / 2, 1.5 * turn * math.sin(turn) - height / 2
        right, top = left + width, bottom + height
        if all(
            right + _GAP[0] < box[0] or box[2] + _GAP[0] < left or top + _GAP[1] < box[1] or box[3] + _GAP[1] < bottom
            for box in boxes
        ):
            return left, bottom
        turn += 0.7 / (1 + turn / 8)


def counts(questions: Sequence[Question]) -> dict[str, int]:
    """Count the questions, or the goals, of each kind but "unsure-actions", which no question has."""
    moments = Counter(one.moment for one in questions)
    return {
        "near-equal": sum(len(set(map(near_key, one.choices))) < len(one.choices) for one in questions),
        "concurrent": sum(not one.concurrent.isdisjoint(map(normalised, one.choices)) for one in questions),
        "copies": sum(moments[one.moment] > 1 for one in questions),
        "listing-goals": sum(goal.lists_actions() for goal in {id(one.goal): one.goal for one in questions}.values()),
    }


def accuracies(questions: Sequence[Question]) -> dict[str, float]:
    """Accuracies of choosing without the video; equally good choices share one point.

    most frequent answer: in questions of the other videos. not done yet: any choice that the progress does not have.
    goal similarity: number of stems that goal and choice share.
    """
    answers = Counter(normalised(one.answer) for one in questions)
    in_video = Counter((one.moment[0], normalised(one.answer)) for one in questions)
    return {
        "n": len(questions),
        "chance": fmean(1 / len(one.choices) for one in questions),
        "most frequent answer": _accuracy(questions, lambda one, key: answers[key] - in_video[one.moment[0], key]),
        "not done yet": _accuracy(questions, lambda one, key: key not in {normalised(past.text) for past in one.past}),
        "goal similarity": _accuracy(questions, lambda one, key: len({*content(one.goal.text)} & {*content(key)})),
    }


def _accuracy(questions: Sequence[Question], score: Callable[[Question, str], float]) -> float:
    points: list[float] = []
    for question in questions:
        scores = {choice: score(question, normalised(choice)) for choice in question.choices}
        best = [choice for choice, value in scores.items() if value == max(scores.values())]
        points.append((question.answer in best) / len(best))
    return round(fmean(points), 4)
