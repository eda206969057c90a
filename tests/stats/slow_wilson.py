"""The interval of a score, from its definition, with loops and scipy's roots."""

import math
from statistics import fmean

import numpy as np
from scipy.stats import t


def slow_wilson(groups, score, top=1.0, asked=0.0):
    """Return the 95 % interval of ``score(answers)``, 0 to `top`, over groups of answers, such as
    those of a video.
    """
    count = len(groups)
    share = score([answer for group in groups for answer in group]) / top
    rest_scores = []
    for index in range(count):
        rest = [answer for other, group in enumerate(groups) if other != index for answer in group]
        rest_scores.append(score(rest) / top)
    deviations = [value - fmean(rest_scores) for value in rest_scores]
    squares = sum(value**2 for value in deviations)
    sizes = [len(group) for group in groups]
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    variance = (
        (1 - asked)
        * count
        / (count - 1)
        * sum((value - fmean(rest_scores)) ** 2 for value in rest_scores)
    )
    if variance > 1e-20 and 1e-12 < share < 1 - 1e-12:
        answers = share * (1 - share) / variance
    else:
        answers = effective / (1 - asked)
    spread = sum(value**4 for value in deviations) - squares**2 / count
    freedom = 2 * squares**2 / spread if spread > 1e-12 * squares**2 else math.inf
    quantile = t.ppf(0.975, min(count - 1, max(1, effective / 4, freedom)))
    # The ends of Wilson's interval are the shares that a test with this quantile does not reject.
    roots = np.roots([1 + quantile**2 / answers, -(2 * share + quantile**2 / answers), share**2])
    return tuple(top * root for root in sorted(roots.real))
