"""Answer questions from their texts alone, without a model: accuracies that a model should exceed.

The baselines are this project's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from lmms_egoplan.benchmarks.egoplan.wording import content, normalised
from lmms_egoplan.media.sampling import Doc

BASELINES = {
    "always A": "Picks the first choice.",
    "most common action": "Picks the choice that is the right answer most often on other videos.",
    "words of the goal": "Picks the choice that has most words in common with the goal.",
    "not done yet": "Picks any choice that is not among the past actions.",
    "longest choice": "Picks the choice with most characters.",
}
"""What each baseline does, by its name."""


def baseline_points(docs: Iterable[Doc]) -> dict[str, list[float]]:
    """Return the points of each of the `BASELINES` for each question, 0 to 1.

    Equally good choices share one point. Texts are compared by their words, see `normalised`, and
    words of the goal by their stems, see `content`.

    Args:
        docs: Questions with the fields ``video_id``, ``task_goal``, ``past_actions``, ``choices``
            and ``answer`` of prepared rows. They are iterated over several times.

    >>> choices = ["open the tap", "take a cup", "wash the cup", "dry the hands"]
    >>> past = [{"narration_text": "take a cup"}, {"narration_text": "Open tap."}]
    >>> doc = {"video_id": "P01_01", "task_goal": "wash a cup", "past_actions": past}
    >>> points = baseline_points([doc | {"choices": choices, "answer": "wash the cup"}])
    >>> for baseline in points.items():
    ...     print(*baseline)
    always A [0.0]
    most common action [0.25]
    words of the goal [1.0]
    not done yet [0.5]
    longest choice [0.0]
    """
    points: dict[str, list[float]] = {name: [] for name in BASELINES}
    for doc_points in _points_by_doc(docs):
        for name, value in doc_points.items():
            points[name].append(value)
    return points


def baseline_means(docs: Iterable[Doc]) -> dict[str, float]:
    """Return each baseline's mean points, without keeping those of each question in memory.

    Args:
        docs: At least one question, see `baseline_points`.
    """
    counts: dict[str, Counter[float]] = {name: Counter() for name in BASELINES}
    for doc_points in _points_by_doc(docs):
        for name, value in doc_points.items():
            counts[name][value] += 1
    means = {}
    for name, values in counts.items():
        total = sum(Fraction(value) * count for value, count in values.items())
        means[name] = float(total / values.total())
    return means


def _points_by_doc(docs: Iterable[Doc]) -> Iterator[dict[str, float]]:
    """Yield each question's points by baseline."""
    num_answers = Counter(normalised(doc["answer"]) for doc in docs)
    num_answers_in_video: dict[str, Counter[str]] = defaultdict(Counter)
    for doc in docs:
        num_answers_in_video[doc["video_id"]][normalised(doc["answer"])] += 1
    for doc in docs:
        done = {normalised(action["narration_text"]) for action in doc["past_actions"]}
        frequencies = []
        for choice in doc["choices"]:
            action = normalised(choice)
            in_video = num_answers_in_video[doc["video_id"]][action]
            frequencies.append(num_answers[action] - in_video)
        similarities = [shared_stems(doc["task_goal"], choice) for choice in doc["choices"]]
        is_open = [normalised(choice) not in done for choice in doc["choices"]]
        lengths = [len(choice) for choice in doc["choices"]]
        yield {
            "always A": float(doc["choices"][0] == doc["answer"]),
            "most common action": _points(doc, frequencies),
            "words of the goal": _points(doc, similarities),
            "not done yet": _points(doc, is_open),
            "longest choice": _points(doc, lengths),
        }


def shared_stems(goal: str, choice: str) -> int:
    """Return the number of distinct stems that a goal and a choice have in common, see `content`.

    >>> shared_stems("wash the cups", "put cup on rack")
    1
    """
    return len({*content(goal)} & {*content(choice)})


def _points(doc: Doc, scores: Sequence[float]) -> float:
    """Return the answer's part of the point that the choices with the best score share.

    Args:
        scores: One per choice.
    """
    score_of = dict(zip(doc["choices"], scores, strict=True))
    best_score = max(score_of.values())
    best = [choice for choice, score in score_of.items() if score == best_score]
    if doc["answer"] not in best:
        return 0.0
    return 1 / len(best)
