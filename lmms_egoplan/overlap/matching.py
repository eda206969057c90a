"""Find each question's degree of overlap with training data, by video and time, and by text."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from lmms_egoplan.overlap.training_files import Item
from lmms_egoplan.overlap.wording import (
    Vocabulary,
    first_sentence,
    is_equal_up_to_a_move,
    same_text,
    stem,
    words,
)
from lmms_egoplan.report.overlap import DEGREES

AFTER = 5.0
"""Seconds after the time shown in which an action with the answer's text is the answer.

Chosen here.
"""
# Indices in `DEGREES`, most severe first.
_SHOWN = 0
_COPY = 1
_OTHER_TIME = 2
_NO_TIME = 3
_CLEAN = 4

Stems = tuple[str, ...]


def audit(questions: Sequence[Item], items: Sequence[Item]) -> Iterator[dict[str, object]]:
    """Match questions with training data, and yield a row for each question.

    ``training`` is the position of one item with this degree, ``text`` that of a near-duplicate
    text.

    >>> question = Item("p01_13", (1.0, 3.0), "wash cup", "open tap", "115")
    >>> item = Item("p01_13", (2.0, 9.0), "Wash the cups.", "Opening the tap", "train.csv, 7")
    >>> (row,) = audit([question], [item])
    >>> row["degree"], row["training"], row["text"]
    ('time or answer in training', 'train.csv, 7', 'train.csv, 7')
    """
    by_video: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.video:
            by_video[item.video].append(item)
    for question, text in zip(questions, near_duplicates(questions, items), strict=True):
        overlaps = [(_CLEAN, "")]
        for item in by_video.get(question.video, ()):
            overlaps.append((_degree(question, item), item.where))
        if text:
            overlaps.append((_COPY, text))
        degree, position = min(overlaps)
        yield {
            "sample_id": question.where,
            "degree": DEGREES[degree],
            "training": position,
            "text": text,
        }


def _degree(question: Item, item: Item) -> int:
    """Return the degree of overlap with an item of the same video."""
    if not (question.span and item.span):
        return _NO_TIME
    is_shown = item.span[0] < question.span[1] and item.span[1] > question.span[0]
    if is_shown:
        return _SHOWN
    is_after = question.span[1] <= item.span[0] < question.span[1] + AFTER
    if is_after and any(same_text(question.action, text) for text in _readings(item.action)):
        return _SHOWN
    return _OTHER_TIME


def near_duplicates(questions: Sequence[Item], items: Iterable[Item]) -> list[str]:
    """Return for each question the position of the first item with its goal and action.

    "" if there is none.

    Texts are compared as `overlap.wording` describes. Of an item's action, the first sentence may
    be the same. An item without a goal is the same if its question contains the goal, as a run of
    words. The result for a pair does not depend on other items.

    >>> question = Item("", None, "wash cup", "open tap", "115")
    >>> asked = "What should I do next in order to wash the cup?"
    >>> near_duplicates([question], [Item("", None, "", "Open the tap.", "train.json, 3", asked)])
    ['train.json, 3']
    """
    index = _QuestionIndex(questions)
    positions = [""] * len(questions)
    for item in items:
        if not item.action or not (item.goal or item.question):
            continue
        for number in index.same_questions(item):
            positions[number] = positions[number] or item.where
    return positions


class _QuestionIndex:
    """Questions by the words of their goals and actions."""

    def __init__(self, questions: Sequence[Item]) -> None:
        self._action_words = Vocabulary(question.action for question in questions)
        self._goal_words = Vocabulary(question.goal for question in questions)
        self._goals_by_action: dict[Stems, dict[Stems, list[int]]] = {}
        for number, question in enumerate(questions):
            goal = _stems(question.goal)
            action = _stems(question.action)
            if goal and action:
                goals = self._goals_by_action.setdefault(action, {})
                goals.setdefault(goal, []).append(number)
        self._actions_by_words: dict[Stems, list[Stems]] = defaultdict(list)
        for action in self._goals_by_action:
            self._actions_by_words[tuple(sorted(action))].append(action)
        # Training data repeat the same texts.
        self._same_actions = lru_cache(maxsize=100_000)(self._find_same_actions)
        self._is_goal = lru_cache(maxsize=100_000)(self._has_words_of_goal)

    def same_questions(self, item: Item) -> Iterator[int]:
        """Yield the numbers of the questions with an item's action and goal."""
        for action in self._same_actions(item.action):
            for goal, numbers in self._goals_by_action[action].items():
                if item.goal:
                    is_same = self._is_goal(item.goal, goal)
                else:
                    is_same = _is_in(goal, item.question, self._goal_words)
                if is_same:
                    yield from numbers

    def _find_same_actions(self, text: str) -> tuple[Stems, ...]:
        same: dict[Stems, None] = {}
        for part in _readings(text):
            for reading in self._action_words.read(words(part)):
                for action in self._actions_by_words.get(tuple(sorted(reading)), ()):
                    if is_equal_up_to_a_move(reading, action):
                        same[action] = None
        return tuple(same)

    def _has_words_of_goal(self, text: str, goal: Stems) -> bool:
        text_words = words(text)
        if len(text_words) != len(goal):
            return False
        return _is_read_as(goal, text_words, self._goal_words)


def _readings(answer: str) -> tuple[str, ...]:
    """Return an answer, and its first sentence: the others may explain it."""
    return tuple(dict.fromkeys((answer, first_sentence(answer))))


def _stems(text: str) -> Stems:
    return tuple(map(stem, words(text)))


def _is_in(goal: Stems, text: str, vocabulary: Vocabulary) -> bool:
    """Return True if a run of a text's words is the same as a goal."""
    text_words = words(text)
    wanted = frozenset(goal)
    is_wanted = [not wanted.isdisjoint(vocabulary.stems_of(word)) for word in text_words]
    for start in range(len(text_words) - len(goal) + 1):
        run = slice(start, start + len(goal))
        if all(is_wanted[run]) and _is_read_as(goal, text_words[run], vocabulary):
            return True
    return False


def _is_read_as(goal: Stems, text_words: Sequence[str], vocabulary: Vocabulary) -> bool:
    """Return True if a way to write words with the vocabulary's stems is a goal."""
    return any(is_equal_up_to_a_move(reading, goal) for reading in vocabulary.read(text_words))
