"""Count goals, action plans, verbs, objects and scenes of questions (sec. 3.4, Table 2).

`prepare` compares the counts of the published files with the paper's.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS

TABLE_2: list[list[Any]] = [
    ["EgoPlan-Val", 3355, 2407, 2538, 202, 496, 279],
    ["EgoPlan-Test", 1584, 902, 1492, 160, 313, 317],
    ["EgoPlan-Bench", 4939, 3269, 3185, 234, 558, 419],
]
"""Rows of Table 2: the split's name, and the numbers that `COUNTS` names."""
COUNTS = ("questions", "task_goals", "action_plans", "verbs", "objects", "scenes")
"""Names of Table 2's numbers in summaries."""
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
# Articles, conjunctions and prepositions.
_STOP_WORDS = re.compile(
    r"an?|and|at|by|for|from|in|into|is|its?|of|off|on|onto|or|out|the|then|to|up|using|with"
)

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
    num_questions = 0
    choices: Counter[str] = Counter()
    goals: set[str] = set()
    scenes: set[str | None] = set()
    for goal, texts, scene in questions:
        num_questions += 1
        choices.update(texts)
        goals.add(goal)
        scenes.add(scene)
    objects_of_verb: dict[str, Counter[str]] = {}
    for choice, count in choices.items():
        verb, thing = parts(choice)
        objects_of_verb.setdefault(verb, Counter())[thing] += count
    objects: set[str] = set()
    for verb_objects in objects_of_verb.values():
        objects.update(verb_objects)
    objects.discard("")
    counts = (
        num_questions,
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
