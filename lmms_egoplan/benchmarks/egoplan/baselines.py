"""Answer questions from their texts alone, without a model: accuracies that a model should exceed.

The baselines are this project's.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.egoplan.wording import content, normalised


@dataclass(frozen=True)
class Texts:
    """The texts of a question.

    Attributes:
        video: Id of the video.
        goal: The goal.
        done: The past actions.
        choices: The choices, at least one.
        answer: The right choice.
    """

    video: str
    goal: str
    done: Collection[str]
    choices: Sequence[str]
    answer: str


def baseline_points(questions: Sequence[Texts]) -> dict[str, list[float]]:
    """Return each baseline's points for each question, 0 to 1. Equally good choices share one point.

    most frequent action: The choice that is the answer of most questions on other videos.
    similarity to the goal: The choice that shares most stems with the goal, see `content`.
    not done yet: Any choice that is not among the past actions.
    longest candidate: The choice with most characters.

    Texts are compared by their words, see `normalised`.

    >>> choices = "open the tap", "take a cup", "wash the cup", "dry the hands"
    >>> asked = [Texts("P01_01", "wash a cup", ["take a cup", "open tap"], choices, "wash the cup")]
    >>> baseline_points(asked)
    {'most frequent action': [0.25], 'similarity to the goal': [1.0], 'not done yet': [0.5], 'longest candidate': [0.0]}
    """
    answers = Counter(normalised(asked.answer) for asked in questions)
    in_video = Counter((asked.video, normalised(asked.answer)) for asked in questions)
    scores: dict[str, Callable[[Texts, str], float]] = {
        "most frequent action": lambda asked, x: answers[normalised(x)] - in_video[asked.video, normalised(x)],
        "similarity to the goal": lambda asked, choice: len({*content(asked.goal)} & {*content(choice)}),
        "not done yet": lambda asked, choice: normalised(choice) not in map(normalised, asked.done),
        "longest candidate": lambda _, choice: len(choice),
    }
    return {name: [_points(asked, score) for asked in questions] for name, score in scores.items()}


def _points(asked: Texts, score: Callable[[Texts, str], float]) -> float:
    scores = {choice: score(asked, choice) for choice in asked.choices}
    best = [choice for choice, value in scores.items() if value == max(scores.values())]
    return (asked.answer in best) / len(best)
