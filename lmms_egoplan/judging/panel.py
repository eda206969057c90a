"""Combine the ratings of a panel of judges, and measure the bias of each judge relative to the other judges.

A judge's *deviation* on an answer is its rating minus the mean rating of the other judges. The quality of the answer
cancels. So does a bias that all judges share: it cannot be measured here.

Each bias is a ratio of sums over answers, so that whole clusters of questions can be resampled.
"""

import re

import numpy as np

from lmms_egoplan.paths import module_yaml

_FAMILIES = module_yaml(__file__)


def combine(ratings: np.ndarray) -> dict[str, np.ndarray]:
    """Combine the ratings of each answer.

    Args:
        ratings: ratings, shape (answers, judges), without missing ones.

    Returns:
        For each answer ``mean``; ``median``; ``majority``, the rating of more than half of the judges, NaN if there is
        none; ``spread``, the highest minus the lowest rating. Each has the shape (answers,).

    >>> {name: values.tolist() for name, values in combine(np.array([[50, 50, 80], [0, 50, 100]])).items()}
    {'mean': [60.0, 50.0], 'median': [50.0, 50.0], 'majority': [50.0, nan], 'spread': [30, 100]}
    """
    middle = np.median(ratings, axis=1)
    # A majority includes the median.
    is_majority = 2 * (ratings == middle[:, None]).sum(axis=1) > ratings.shape[1]
    majority, spread = np.where(is_majority, middle, np.nan), np.ptp(ratings, axis=1)
    return {"mean": ratings.mean(axis=1), "median": middle, "majority": majority, "spread": spread}


def family_of(model: str) -> str | None:
    """Return the family of a model by its name; None if no family or several families fit.

    Args:
        model: name of the model, with or without folders. Several names are joined by ", ".

    >>> family_of("Qwen/Qwen3-32B"), family_of("openai.gpt-4o, o4-mini"), family_of("MiniGPT-4-7B")
    ('Qwen', 'OpenAI', None)
    """
    names = [name.rstrip("/").rpartition("/")[2].lower() for name in model.split(", ")]
    families = {next((x for x, start in _FAMILIES.items() if re.match(start, name)), None) for name in names}
    return families.pop() if len(families) == 1 else None


def deviations(ratings: np.ndarray) -> np.ndarray:
    """Return each rating minus the mean of the other judges' ratings of the same answer, shape (answers, judges).

    Args:
        ratings: ratings, shape (answers, judges), with at least two judges.

    >>> deviations(np.array([[0, 50, 100]])).tolist()
    [[-75.0, 0.0, 75.0]]
    """
    judges = ratings.shape[1]
    return (ratings - ratings.mean(axis=1, keepdims=True)) * judges / (judges - 1)


def length_rows(deviation: np.ndarray, words: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the summands of a judge's bias by length, in points per doubling of an answer's length.

    The bias is the least-squares slope of the deviation on log2 of the number of words, with a mean for each group. It
    is the first sum of the result divided by the second.

    Args:
        deviation: the judge's deviation on each answer, shape (answers,).
        words: number of words of each answer. 0 counts as 1.
        groups: the group of each answer, such as its question.

    Returns:
        For each answer, the summands of numerator and denominator, and 1 if the group has another answer; shape
        (answers, 3).

    >>> words, questions = np.array([10, 20, 40, 5]), np.array(["1", "1", "1", "2"])
    >>> above, below, used = length_rows(np.array([0, 5, 10, 3]), words, questions).sum(axis=0)
    >>> round(float(above / below), 6), int(used)
    (5.0, 3)
    """
    _, index = np.unique(groups, return_inverse=True)
    sizes = np.bincount(index)
    length, deviation = (
        values - (np.bincount(index, values) / sizes)[index] for values in (np.log2(np.maximum(words, 1)), deviation)
    )
    return np.stack([length * deviation, length**2, sizes[index] > 1], axis=-1)


def family_rows(deviation: np.ndarray, is_own: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Return the summands of a judge's bias for its own family, in points.

    In each question, the bias is the mean deviation on answers of the judge's own family minus that on other answers.
    The mean over the questions with both is the first sum of the result divided by the second.

    Args:
        deviation: the judge's deviation on each answer, shape (answers,).
        is_own: true for answers of models of the judge's family.
        questions: the question of each answer.

    Returns:
        For each answer, the summands of numerator and denominator, and 1 if its question counts; shape (answers, 3).

    >>> is_own, questions = np.array([True, False, False, True]), np.array(["1", "1", "1", "2"])
    >>> above, below, used = family_rows(np.array([10, 0, 5, 50]), is_own, questions).sum(axis=0)
    >>> float(above / below), int(used)
    (7.5, 3)
    """
    _, index = np.unique(questions, return_inverse=True)
    sizes = np.stack([np.bincount(index, side) for side in (~is_own, is_own)])
    weights = ((sizes.min(axis=0) > 0) / np.maximum(sizes, 1))[is_own.astype(int), index]
    return np.stack([np.where(is_own, weights, -weights) * deviation, is_own * weights, weights > 0], axis=-1)
