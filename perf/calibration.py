"""Simulate the coverage of the intervals of `lmms_egoplan.stats.calibration`, for questions in
videos.

A question's four candidates have normal scores plus a bonus for one candidate, the model's
favourite. The favourite is the right one if a normal variable, 30 % of whose variance the video
shares, is below a threshold that depends on the model's confidence. The models differ in how often
they are right at a confidence:

calibrated      as often as they are confident
overconfident   the same model, with all scores doubled: the best temperature is 2
one bin         calibrated, but right in 40 points fewer of the most confident 10 %
blind           never better than chance, with the same confidence

The truth is counted over 400,000 questions of other videos. The columns are shares of draws whose
interval contains it:

ece, ece fitted   calibration error as is, and with temperatures of other videos
plain             for comparison: a percentile bootstrap of the ECE
brier             Brier score
sets              conformal sets at 80, 90, 95 %: does the interval contain the share of a new
video's questions whose
                  set contains the right candidate, with the threshold from all videos at hand?

"Reached" is the mean of this share over the draws, which must be at least the level. "Bias" is the
mean of the ECE minus the truth, and "width" the mean width of its interval, in points.

    python perf/calibration.py                              # all 12 rows
"""

import argparse
import platform
import sys
import time

import numpy as np
import scipy
from scipy.special import ndtri, softmax

from lmms_egoplan.stats import calibration, intervals
from lmms_egoplan.stats.calibration import (
    BINS,
    RESAMPLES,
    bins_of,
    brier_score,
    calibration_error,
    choices,
    conformal_sets,
    conformal_threshold,
    cross_fitted,
    fit_temperature,
    gaps_of,
)
from lmms_egoplan.stats.intervals import interval_of_sums

DRAWS, TRUTH = 2000, 400_000
LEVELS = (0.8, 0.9, 0.95)
VIDEOS = {
    "60 videos of 7": (60, (7,)),
    "60 videos of 1 to 40": (60, (1, 2, 5, 20, 40)),
    "200 videos of 4": (200, (4,)),
}
CORRELATION = 0.3
MODELS = ("calibrated", "overconfident", "one bin", "blind")
SCENARIOS = [(videos, model) for videos in VIDEOS for model in MODELS]
COVERED = ("ece", "ece fitted", "brier", *(f"sets {level:.0%}" for level in LEVELS))
NOMINAL = 0.95
"""Coverage that each interval should have. The output names those with less."""


def draw(rng: np.random.Generator, model: str, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Draw scores, right candidates and videos."""
    videos = np.repeat(np.arange(len(sizes)), sizes)
    scores = rng.normal(0, 0.8, (len(videos), 4))
    scores[:, 0] += rng.gamma(2, 0.9, len(videos))
    confidence = softmax(scores, 1).max(1)
    shared = rng.standard_normal(len(sizes))[videos]
    luck = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * rng.standard_normal(
        len(videos)
    )
    ability = {
        "blind": np.full(len(videos), 0.25),
        "one bin": confidence - 0.4 * (confidence > 0.915),
    }
    is_right = luck < ndtri(ability.get(model, confidence))
    # A wrong choice leaves the others right in proportion to their probabilities, as for a
    # calibrated model.
    rest = np.where(
        np.arange(4) == scores.argmax(1)[:, None], -np.inf, scores + rng.gumbel(size=scores.shape)
    )
    gold = np.where(is_right, scores.argmax(1), rest.argmax(1))
    return scores * (2 if model == "overconfident" else 1), gold, videos


def plain_error(confidence: np.ndarray, is_right: np.ndarray) -> float:
    return np.abs(np.bincount(bins_of(confidence), is_right - confidence, BINS)).sum() / len(
        confidence
    )


def truths(model: str) -> dict[str, float]:
    """Return the true values.

    Each question has the same weight; a correlation does not change them.
    """
    rng = np.random.default_rng(1)
    scores, gold, _ = draw(rng, model, np.ones(TRUTH, int))
    best = fit_temperature(scores, gold)
    return {
        "ece": plain_error(*choices(scores, gold)),
        "ece fitted": plain_error(*choices(scores, gold, best)),
        "brier": brier_score(scores, gold, 1.0, np.arange(TRUTH) % 10).value,
        "gaps": np.sort(gaps_of(scores, gold)),
        "temperature": best,
    }


def measure(rng: np.random.Generator, model: str, videos: str, truth: dict) -> dict[str, float]:
    """Return for one draw whether each interval contains the truth, and the values to average."""
    count, kinds = VIDEOS[videos]
    scores, gold, clusters = draw(rng, model, rng.choice(kinds, count))
    pair = choices(scores, gold)
    error = calibration_error(*pair, clusters)
    fitted = calibration_error(
        *choices(scores, gold, cross_fitted(scores, gold, clusters)), clusters
    )
    bins = np.eye(BINS)[bins_of(pair[0])] * (pair[1] - pair[0])[:, None]
    rows = np.column_stack([bins, np.ones(len(gold))])
    naive = interval_of_sums(
        rows, clusters, lambda sums: np.abs(sums[..., :BINS]).sum(-1) / sums[..., BINS]
    )
    intervals = {
        "ece": (error.interval, truth["ece"]),
        "ece fitted": (fitted.interval, truth["ece fitted"]),
        "plain": (naive, truth["ece"]),
        "brier": (brier_score(scores, gold, 1.0, clusters).interval, truth["brier"]),
    }
    values = {"bias": error.value - truth["ece"], "width": np.ptp(error.interval)}
    for level in LEVELS:
        threshold = conformal_threshold(gaps_of(scores, gold), clusters, level)
        reached = np.searchsorted(truth["gaps"], threshold, side="right") / TRUTH
        sets = conformal_sets(scores, gold, clusters, level)
        intervals[f"sets {level:.0%}"] = (sets["low"] / 100, sets["high"] / 100), reached
        values[f"reached {level:.0%}"] = reached
    return {
        name: low - 1e-9 <= x <= high + 1e-9 for name, ((low, high), x) in intervals.items()
    } | values


def main() -> int:
    """Print a row per scenario, and which coverages are below 95 %.

    Return 1 if sets miss their level.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=DRAWS, help="number of draws per row")
    parser.add_argument(
        "--resamples", type=int, default=RESAMPLES, help="number of resamples per interval"
    )
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[*range(len(SCENARIOS))], help="numbers of the rows"
    )
    options = parser.parse_args()
    calibration.RESAMPLES = intervals.RESAMPLES = options.resamples
    started, low, missed = time.monotonic(), [], []
    for number in options.rows:
        videos, model = SCENARIOS[number]
        rng, truth = np.random.default_rng(number), truths(model)
        rows = [measure(rng, model, videos, truth) for _ in range(options.draws)]
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        if number == options.rows[0]:
            print(
                f"| videos | model | true ECE | {' | '.join(means)} "
                f"|\n|---|---|{'---:|' * (1 + len(means))}"
            )
        cells = [f"{100 * value:.1f}" for value in (truth["ece"], *means.values())]
        print(f"| {videos} | {model} |", " | ".join(cells), "|", flush=True)
        least = NOMINAL - 2 * (NOMINAL * (1 - NOMINAL) / options.draws) ** 0.5
        shares = {name: value for name, value in means.items() if name in COVERED}
        low += [
            f"{videos}, {model}: {name} {value:.1%}"
            for name, value in shares.items()
            if value < least
        ]
        missed += [
            f"{videos}, {model}: {level:.0%}"
            for level in LEVELS
            if means[f"reached {level:.0%}"] < level - 0.005
        ]
    error = 100 * (0.95 * 0.05 / options.draws) ** 0.5
    print(
        f"\n{options.draws:,} draws; the standard error of a coverage of 95 % is "
        f"{error:.1f} points."
    )
    print(
        f"scipy {scipy.__version__}, Python {platform.python_version()}, "
        f"{time.monotonic() - started:.0f} s"
    )
    print("\n".join(["Coverage below 95 % by more than two standard errors:", *(low or ["none"])]))
    print(
        "\n".join(
            [
                "Sets that contain the right candidate less often than their level:",
                *(missed or ["none"]),
            ]
        )
    )
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
