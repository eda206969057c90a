"""Summarise built questions: what `--drop` is about, and accuracies without the video."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

from lmms_egoplan.construction.egoplan.narrations import normalised
from lmms_egoplan.construction.egoplan.questions import Question
from lmms_egoplan.construction.egoplan.wording import content, near_key

# What `--drop` takes.
KINDS = ("near-equal", "concurrent", "copies", "listing-goals", "unsure-actions")


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
