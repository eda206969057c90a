"""Compute statistics of built questions.

These are Table 2 and its figures, `--drop` kinds, and accuracies without the video.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from lmms_egoplan.benchmarks.egoplan.statistics import Statistics, statistics
from lmms_egoplan.benchmarks.egoplan.wording import near_key, normalised
from lmms_egoplan.construction.egoplan.questions import Question
from lmms_egoplan.report.egoplan.baselines import baseline_points

# The values of `--drop`.
KINDS = ("near-equal", "concurrent", "copies", "listing-goals", "unsure-actions")


def built_statistics(questions: Sequence[Question]) -> Statistics:
    """Compute the statistics of built questions, whose narrations name verbs and objects."""
    parts = {
        action.text: (action.verb, action.object)
        for question in questions
        for action in question.goal.actions
    }
    return statistics(
        (
            (question.goal.text, question.choices, question.goal.video.scene)
            for question in questions
        ),
        parts.__getitem__,
    )


def counts(questions: Sequence[Question]) -> dict[str, int]:
    """Count the questions, or goals, of each kind.

    "unsure-actions" are not counted: they are in no question.
    """
    moments = Counter(question.moment for question in questions)
    goals = {id(question.goal): question.goal for question in questions}.values()
    return {
        "near-equal": sum(
            len(set(map(near_key, question.choices))) < len(question.choices)
            for question in questions
        ),
        "concurrent": sum(
            not question.concurrent.isdisjoint(map(normalised, question.choices))
            for question in questions
        ),
        "copies": sum(moments[question.moment] > 1 for question in questions),
        "listing-goals": sum(goal.lists_actions() for goal in goals),
    }


def accuracies(questions: Sequence[Question]) -> dict[str, float]:
    """Return accuracies of chance and of the baselines that do not see the video.

    See `baseline_points`.
    """
    docs = []
    for question in questions:
        past_actions = [{"narration_text": action.text} for action in question.past]
        docs.append(
            {
                "video_id": question.moment[0],
                "task_goal": question.goal.text,
                "choices": question.choices,
                "answer": question.answer,
                "past_actions": past_actions,
            }
        )
    means = {name: round(fmean(points), 4) for name, points in baseline_points(docs).items()}
    return {
        "n": len(questions),
        "chance": fmean(1 / len(item.choices) for item in questions),
    } | means
