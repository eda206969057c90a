"""Combine the ratings of a panel of judges."""

import numpy as np


def combine(ratings: np.ndarray) -> dict[str, np.ndarray]:
    """Combine the ratings of each answer.

    Args:
        ratings: ratings, shape (answers, judges), without missing ones.

    Returns:
        For each answer ``mean``; ``median``; ``majority``, the rating of more than half of the
        judges, NaN if there is none; ``spread``, the highest minus the lowest rating. Each has the
        shape (answers,).

    >>> combined = combine(np.array([[50, 50, 80], [0, 50, 100]]))
    >>> {name: values.tolist() for name, values in combined.items()}
    {'mean': [60.0, 50.0], 'median': [50.0, 50.0], 'majority': [50.0, nan], 'spread': [30, 100]}
    """
    middle = np.median(ratings, axis=1)
    # A majority includes the median.
    num_equal = (ratings == middle[:, None]).sum(axis=1)
    majority = np.where(2 * num_equal > ratings.shape[1], middle, np.nan)
    return {
        "mean": ratings.mean(axis=1),
        "median": middle,
        "majority": majority,
        "spread": np.ptp(ratings, axis=1),
    }
