"""Compare two kinds of answers within groups.

They are compared by the slope of a regression with a mean for each group.
"""

import numpy as np


def slope_rows(values: np.ndarray, scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the summands of the least-squares slope of scores on a value.

    Each group has its own mean. The slope is the first sum divided by the second. Both are sums
    over answers, so that answers can be resampled. For values of 0 and 1, and groups with the same
    numbers of both, it is the mean over the groups of the difference between the mean scores of
    answers with 1 and with 0.

    Args:
        values: the value of each answer, such as 1 for a yes-or-no question.
        scores: the score of each answer.
        groups: the group of each answer, such as its dimension.

    Returns:
        For each answer, the summands of numerator and denominator, and 1 if the values differ in
        the answer's group; shape (answers, 3).

    >>> dimensions = np.array(["1", "1", "1", "2"])
    >>> rows = slope_rows(np.array([1, 0, 0, 1]), np.array([10, 0, 5, 50]), dimensions)
    >>> rows.sum(axis=0).round(3).tolist()
    [5.0, 0.667, 3.0]
    """
    _, index = np.unique(groups, return_inverse=True)
    sizes = np.bincount(index)
    mean_values = np.bincount(index, values) / sizes
    mean_scores = np.bincount(index, scores) / sizes
    x = values - mean_values[index]
    y = scores - mean_scores[index]
    differs_in_group = np.bincount(index, x**2)[index] > 1e-9
    return np.stack([x * y, x**2, differs_in_group], axis=-1)
