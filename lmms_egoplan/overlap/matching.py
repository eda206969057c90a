"""Find each question's degree of overlap with training data, by video and time, and by text."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from lmms_egoplan.overlap.training_files import Item
from lmms_egoplan.overlap.wording import (
    Vocabulary,
    first_sentence,
    is_moved,
    same_text,
    stem,
    words,
)
from lmms_egoplan.report.overlap import DEGREES

AFTER = 5.0
"""An action with the answer's text, up to this many seconds after the time shown, is the answer. Chosen here."""
_SHOWN, _COPY, _OTHER_TIME, _NO_TIME, _CLEAN, _ = range(len(DEGREES))

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
    in_order = sorted(items, key=lambda item: item.video)
    by_video = {
        video: [*group] for video, group in groupby(in_order, lambda item: item.video) if video
    }
    for question, text in zip(questions, near_duplicates(questions, items), strict=True):
        pairs = [(_degree(question, item), item.where) for item in by_video.get(question.video, ())]
        pairs += [(_COPY, text)] * bool(text) + [(_CLEAN, "")]
        degree, position = min(pairs)
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
    is_after = question.span[1] <= item.span[0] < question.span[1] + AFTER
    if is_shown or (
        is_after and any(same_text(question.action, text) for text in _readings(item.action))
    ):
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
    actions = Vocabulary(question.action for question in questions)
    goals = Vocabulary(question.goal for question in questions)
    goals_by_action: dict[Stems, dict[Stems, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, question in enumerate(questions):
        goal = _stems(question.goal)
        action = _stems(question.action)
        if goal and action:
            goals_by_action[action][goal].append(index)
    actions_by_words: dict[Stems, list[Stems]] = defaultdict(list)
    for action in goals_by_action:
        actions_by_words[tuple(sorted(action))].append(action)

    @lru_cache(maxsize=100_000)  # Training data repeat the same texts.
    def same_actions(text: str) -> tuple[Stems, ...]:
        same: dict[Stems, None] = {}
        for reading in (
            reading for part in _readings(text) for reading in actions.read(words(part))
        ):
            candidates = actions_by_words.get(tuple(sorted(reading)), ())
            same |= dict.fromkeys(action for action in candidates if is_moved(reading, action))
        return tuple(same)

    @lru_cache(maxsize=100_000)
    def is_goal(text: str, goal: Stems) -> bool:
        text_words = words(text)
        return len(text_words) == len(goal) and any(
            is_moved(reading, goal) for reading in goals.read(text_words)
        )

    positions = [""] * len(questions)
    for item in items:
        if not item.action or not (item.goal or item.question):
            continue
        for action in same_actions(item.action):
            for goal, indices in goals_by_action[action].items():
                is_same = (
                    is_goal(item.goal, goal) if item.goal else _is_in(goal, item.question, goals)
                )
                for index in indices if is_same else ():
                    positions[index] = positions[index] or item.where
    return positions


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
    return any(
        all(is_wanted[start : start + len(goal)])
        and any(
            is_moved(reading, goal)
            for reading in vocabulary.read(text_words[start : start + len(goal)])
        )
        for start in range(len(text_words) - len(goal) + 1)
    )
