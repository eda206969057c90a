"""Simulate the coverage and the width of the intervals of scores:

`stats.intervals.wilson_interval`.

A draw has right-or-wrong answers to questions in videos. Videos have 8 questions on average; their
numbers are equal, or log-normal with a standard deviation of the logarithm of 0.8 ("skewed") or 1.2
("very skewed"). The chance of a right answer differs by video (beta distribution). "Correlation" is
that of two answers in one video. The true score is the rate over the questions of all possible
videos. The columns:

5, 95 %     coverage in % for these true scores; 10, 90 % as well; lowest and highest for 25, 50 and
75 % graded      lowest and highest coverage over all true scores for answers of 0, 0.5 or 1
bootstrap   lowest and highest coverage of the percentiles of resampled videos width       mean
width of the intervals, divided by that of the bootstrap, lowest and highest over the true scores

    python perf/intervals.py                            # less than a minute on one core
    python perf/intervals.py --draws 200                # to try it
"""

import argparse
import platform
import time

import numpy as np
import scipy

from lmms_egoplan.stats.intervals import wilson_interval

DRAWS = 2000
RESAMPLES = 500
RESAMPLED = 500
"""Number of draws with a bootstrap."""
MEAN_SIZE = 8
RATES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
CORRELATIONS = (0, 0.25, 0.5)
VIDEOS = (5, 10, 12, 20, 30, 60, 100)
KINDS = {"equal": 0.0, "skewed": 0.8, "very skewed": 1.2}


def draw_sizes(rng: np.random.Generator, videos: int, deviation: float, draws: int) -> np.ndarray:
    """Draw numbers of questions, shape (videos, draws)."""
    logarithms = deviation * rng.standard_normal((videos, draws)) - deviation**2 / 2
    return np.maximum(1, np.rint(MEAN_SIZE * np.exp(logarithms))).astype(int)


def draw_right(
    rng: np.random.Generator, sizes: np.ndarray, rate: float, correlation: float, grades: int
) -> np.ndarray:
    """Draw each video's sum of scores.

    A score is the mean of `grades` right-or-wrong answers with one chance.
    """
    if correlation == 0:
        chances = np.full(sizes.shape, rate)
    else:
        total = 1 / correlation - 1
        chances = rng.beta(rate * total, (1 - rate) * total, sizes.shape)
    return rng.binomial(grades * sizes, chances) / grades


def share_of(sums: np.ndarray) -> np.ndarray:
    """Return the score from sums of scores and questions, shape (..., 2)."""
    return sums[..., 0] / sums[..., 1]


def bootstrap_ends(rng: np.random.Generator, right: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the ends of percentile intervals, shape (2, draws)."""
    videos = len(sizes)
    weights = rng.multinomial(videos, np.full(videos, 1 / videos), RESAMPLES).astype(float)
    return np.percentile((weights @ right) / (weights @ sizes), (2.5, 97.5), axis=0)


def coverage(ends: tuple[np.ndarray, np.ndarray] | np.ndarray, rate: float) -> float:
    """Return the share of intervals that contain the rate, in %."""
    low, high = ends
    return 100 * float(((low <= rate + 1e-12) & (rate <= high + 1e-12)).mean())


def simulate(
    rng: np.random.Generator, videos: int, kind: str, correlation: float, grades: int, draws: int
) -> tuple[list[float], list[float], list[float]]:
    """Return coverage, the bootstrap's coverage and the ratio of widths, for each of `RATES`."""
    covered = []
    covered_before = []
    widths = []
    for rate in RATES:
        sizes = draw_sizes(rng, videos, KINDS[kind], draws)
        right = draw_right(rng, sizes, rate, correlation, grades)
        ends = wilson_interval(np.stack([right, sizes], axis=-1), sizes, share_of)
        before = bootstrap_ends(rng, right[:, :RESAMPLED], sizes[:, :RESAMPLED])
        covered.append(coverage(ends, rate))
        covered_before.append(coverage(before, rate))
        widths.append((ends[1] - ends[0])[:RESAMPLED].mean() / (before[1] - before[0]).mean())
    return covered, covered_before, widths


def main() -> None:
    """Print a row for each number of videos, kind of sizes and correlation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=DRAWS)
    draws = parser.parse_args().draws
    started = time.monotonic()
    rng = np.random.default_rng(0)
    print(
        "| videos | sizes | correlation | 5, 95 % | 10, 90 % | 25 to 75 % | graded | "
        "bootstrap | width |"
    )
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for videos in VIDEOS:
        for kind in KINDS:
            for correlation in CORRELATIONS:
                covered, before, widths = simulate(rng, videos, kind, correlation, 1, draws)
                graded, _, _ = simulate(rng, videos, kind, correlation, 2, draws)
                cells = [
                    ", ".join(f"{covered[index]:.1f}" for index in (0, -1)),
                    ", ".join(f"{covered[index]:.1f}" for index in (1, -2)),
                    f"{min(covered[2:-2]):.1f} to {max(covered[2:-2]):.1f}",
                    f"{min(graded):.1f} to {max(graded):.1f}",
                    f"{min(before):.0f} to {max(before):.0f}",
                    f"{min(widths):.2f} to {max(widths):.2f}",
                ]
                print(f"| {videos} | {kind} | {correlation:g} | {' | '.join(cells)} |", flush=True)
    seconds = time.monotonic() - started
    print(
        f"\n{draws:,} draws, scipy {scipy.__version__}, Python "
        f"{platform.python_version()}, {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
