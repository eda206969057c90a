"""Compute statistics of built questions.

These are Table 2 and its figures, `--drop` kinds, and accuracies without the video.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from lmms_egoplan.benchmarks.egoplan.statistics import Statistics, statistics
from lmms_egoplan.benchmarks.egoplan.wording import near_key, normalised
from lmms_egoplan.construction.egoplan.questions import Question
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.egoplan.baselines import baseline_means

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

    Args:
        questions: All questions of a video follow each other.
    """
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
        "copies": _num_copies(questions),
        "listing-goals": sum(goal.lists_actions() for goal in goals),
    }


def _num_copies(questions: Sequence[Question]) -> int:
    """Count the questions whose moment another question of the video shares."""
    num_copies = 0
    for _, group in groupby(questions, key=lambda question: question.goal.video.video_id):
        moments = Counter(question.moment for question in group)
        num_copies += sum(count for count in moments.values() if count > 1)
    return num_copies


def accuracies(questions: Sequence[Question]) -> dict[str, float]:
    """Return accuracies of chance and of the baselines that do not see the video.

    See `baseline_means`.
    """
    means = {name: round(mean, 4) for name, mean in baseline_means(_Docs(questions)).items()}
    return {
        "n": len(questions),
        "chance": fmean(1 / len(item.choices) for item in questions),
    } | means


@dataclass(frozen=True)
class _Docs:
    """Rows of questions for `baseline_means`, built one at a time to save memory."""

    questions: Sequence[Question]

    def __iter__(self) -> Iterator[Doc]:
        for question in self.questions:
            past_actions = [{"narration_text": action.text} for action in question.past]
            yield {
                "video_id": question.goal.video.video_id,
                "task_goal": question.goal.text,
                "choices": question.choices,
                "answer": question.answer,
                "past_actions": past_actions,
            }
