"""Answer questions from their texts alone, without a model: accuracies that a model should exceed.

The baselines are this project's.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from lmms_egoplan.benchmarks.egoplan.wording import content, normalised
from lmms_egoplan.media.sampling import Doc


def baseline_points(docs: Sequence[Doc]) -> dict[str, list[float]]:
    """Return each baseline's points for each question, 0 to 1.

    Equally good choices share one point.

    most frequent action: The choice that is the answer of most questions on other videos.
    similarity to the goal: The choice that shares most stems with the goal, see `content`.
    not done yet: Any choice that is not among the past actions.
    longest candidate: The choice with most characters.

    Texts are compared by their words, see `normalised`.

    Args:
        docs: Questions with the fields ``video_id``, ``task_goal``, ``past_actions``, ``choices``
            and ``answer`` of prepared rows.

    >>> choices = ["open the tap", "take a cup", "wash the cup", "dry the hands"]
    >>> past = [{"narration_text": "take a cup"}, {"narration_text": "Open tap."}]
    >>> doc = {"video_id": "P01_01", "task_goal": "wash a cup", "choices": choices, "answer": "wash the cup"}
    >>> baseline_points([doc | {"past_actions": past}])
    {'most frequent action': [0.25], 'similarity to the goal': [1.0], 'not done yet': [0.5],
    'longest candidate': [0.0]}
    """
    answers = Counter(normalised(doc["answer"]) for doc in docs)
    in_video = Counter((doc["video_id"], normalised(doc["answer"])) for doc in docs)
    done = {
        id(doc): {normalised(action["narration_text"]) for action in doc["past_actions"]}
        for doc in docs
    }
    scores: dict[str, Callable[[Doc, str], float]] = {
        "most frequent action": lambda doc, x: (
            answers[normalised(x)] - in_video[doc["video_id"], normalised(x)]
        ),
        "similarity to the goal": lambda doc, choice: shared_stems(doc["task_goal"], choice),
        "not done yet": lambda doc, choice: normalised(choice) not in done[id(doc)],
        "longest candidate": lambda _, choice: len(choice),
    }
    return {name: [_points(doc, score) for doc in docs] for name, score in scores.items()}


def shared_stems(goal: str, choice: str) -> int:
    """Return the number of distinct stems that a goal and a choice have in common, see `content`.

    >>> shared_stems("wash the cups", "put cup on rack")
    1
    """
    return len({*content(goal)} & {*content(choice)})


def _points(doc: Doc, score: Callable[[Doc, str], float]) -> float:
    scores = {choice: score(doc, choice) for choice in doc["choices"]}
    best = [choice for choice, value in scores.items() if value == max(scores.values())]
    return (doc["answer"] in best) / len(best)
