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
    majority = np.where(2 * (ratings == middle[:, None]).sum(axis=1) > ratings.shape[1], middle, np.nan)
    return {"mean": ratings.mean(axis=1), "median": middle, "majority": majority, "spread": np.ptp(ratings, axis=1)}


def family_of(model: str) -> str | None:
    """Return the family of a model by its name; None if no family or several families fit.

    Args:
        model: name of the model, with or without folders. Several names are joined by ", ". Changed parameters may
            follow in parentheses.

    >>> family_of("Qwen/Qwen3-32B"), family_of("openai.gpt-4o, o4-mini"), family_of("MiniGPT-4-7B")
    ('Qwen', 'OpenAI', None)
    """
    names = [x.rstrip("/").rpartition("/")[2].lower() for x in re.sub(r" \(.*?\)(?=, |$)", "", model).split(", ")]
    families = {next((x for x, start in _FAMILIES.items() if re.match(start, name)), None) for name in names}
    return families.pop() if len(families) == 1 else None


def deviations(ratings: np.ndarray) -> np.ndarray:
    """Return each rating minus the mean of the other judges' ratings of the same answer, shape (answers, judges).

    Args:
        ratings: ratings, shape (answers, judges), with at least two judges.

    >>> deviations(np.array([[0, 50, 100]])).tolist()
    [[-75.0, 0.0, 75.0]]
    """
    return (ratings - ratings.mean(axis=1, keepdims=True)) * ratings.shape[1] / (ratings.shape[1] - 1)


def slope_rows(values: np.ndarray, deviation: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the summands of the least-squares slope of a judge's deviation on a value, with a mean for each group.

    The slope is the first sum divided by the second. For values of 0 and 1 and the same models in all groups, it is the
    mean over the groups of the difference between the mean deviations on answers with 1 and with 0.

    Args:
        values: the value of each answer, such as log2 of its number of words, or 1 for the judge's own family.
        deviation: the judge's deviation on each answer.
        groups: the group of each answer, such as its question.

    Returns:
        For each answer, the summands of numerator and denominator, and 1 if the values differ in the answer's group;
        shape (answers, 3).

    >>> questions = np.array(["1", "1", "1", "2"])
    >>> slope_rows(np.array([1, 0, 0, 1]), np.array([10, 0, 5, 50]), questions).sum(axis=0).round(3).tolist()
    [5.0, 0.667, 3.0]
    """
    _, index = np.unique(groups, return_inverse=True)
    sizes = np.bincount(index)
    x, y = (of_all - (np.bincount(index, of_all) / sizes)[index] for of_all in (values, deviation))
    return np.stack([x * y, x**2, np.bincount(index, x**2)[index] > 1e-9], axis=-1)
