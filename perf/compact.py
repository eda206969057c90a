"""Simulate the bias, the coverage and the width of the estimates of compact runs.

A population has 3,355 right-or-wrong questions in videos. The answers of a video correlate, and the
accuracy may depend on the number of questions of the video: per doubling of the number, the odds of
a right answer change by the factor in "per doubling". A draw is a random order of the questions,
like that of `benchmarks.subset.draw`, and `wilson_interval` makes the interval for the accuracy
over all questions. Ten populations share the draws of a row. The columns:

bias            mean difference of the estimate from the accuracy over all questions, in points
whole videos    the same if whole videos are drawn at random, as long as their questions fit
coverage        share of intervals that contain the accuracy over all questions, in %
width           mean width of the intervals, in points
planned         width that `planned_widths` expects, for an accuracy of 50 %

    python perf/compact.py                              # about a minute on one core
    python perf/compact.py --draws 200                  # to try it
"""

import argparse
import platform
import time

import numpy as np
import scipy

from lmms_egoplan.benchmarks.subset import planned_widths
from lmms_egoplan.stats.intervals import wilson_interval

DRAWS = 2000
POPULATIONS = 10
QUESTIONS = 3355
ASKED = (100, 300, 1000)
ACCURACIES = (5, 25, 50, 90)
CORRELATION = 0.25
FACTORS = (1, 0.5)
# Number of videos, and standard deviation of the logarithm of their sizes.
VIDEOS = {
    "420 equal": (420, 0.0),
    "340 skewed": (340, 0.8),
    "200 very skewed": (200, 1.2),
    "60 very skewed": (60, 1.2),
}


def population(
    rng: np.random.Generator, kind: str, accuracy: float, factor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of questions of each video, and whether each question is answered right,
    video by video.
    """
    count, deviation = VIDEOS[kind]
    weights = np.exp(deviation * rng.standard_normal(count))
    sizes = 1 + rng.multinomial(QUESTIONS - count, weights / weights.sum())
    slopes = np.log(factor) * np.log2(sizes)
    low, high = -30.0, 30.0
    for _ in range(60):  # the odds with which the mean over the questions is the accuracy
        middle = (low + high) / 2
        chances = 1 / (1 + np.exp(-middle - slopes))
        low, high = (
            (middle, high)
            if (chances * sizes).sum() < accuracy / 100 * QUESTIONS
            else (low, middle)
        )
    chances = np.clip(chances, 1e-9, 1 - 1e-9)
    total = 1 / CORRELATION - 1
    of_videos = rng.beta(np.maximum(1e-6, chances * total), np.maximum(1e-6, (1 - chances) * total))
    return sizes, rng.random(QUESTIONS) < np.repeat(of_videos, sizes)


def whole_videos(
    rng: np.random.Generator, sizes: np.ndarray, right: np.ndarray, asked: int, draws: int
) -> np.ndarray:
    """Return the accuracy over whole videos in random order, as long as their questions fit, for
    each draw.
    """
    sums = np.add.reduceat(right.astype(float), np.cumsum([0, *sizes[:-1]]))
    orders = rng.permuted(np.tile(np.arange(len(sizes)), (draws, 1)), axis=1)
    up_to = np.cumsum(sizes[orders], axis=1)
    last = np.maximum(0, (up_to <= asked).sum(axis=1) - 1)
    rows = np.arange(draws)
    return np.cumsum(sums[orders], axis=1)[rows, last] / up_to[rows, last]


def simulate(
    rng: np.random.Generator, kind: str, asked: int, accuracy: float, factor: float, draws: int
) -> str:
    """Return the cells of one row."""
    biases = []
    video_biases = []
    inside = []
    widths = []
    for _ in range(POPULATIONS):
        sizes, right = population(rng, kind, accuracy, factor)
        drawn = rng.permuted(np.tile(right, (draws // POPULATIONS, 1)), axis=1)[:, :asked].T
        sums = np.stack([drawn, np.ones_like(drawn)], axis=-1).astype(float)
        ends = wilson_interval(
            sums, sums[..., 1], lambda part: part[..., 0] / part[..., 1], asked / QUESTIONS
        )
        true = right.mean()
        biases.append(drawn.mean() - true)
        video_biases.append(
            whole_videos(rng, sizes, right, asked, draws // POPULATIONS).mean() - true
        )
        inside.append(((ends[0] <= true) & (true <= ends[1])).mean())
        widths.append((ends[1] - ends[0]).mean())
    cells = [100 * np.mean(values) for values in (biases, video_biases, inside, widths)]
    return " | ".join(f"{value:.1f}" for value in cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=DRAWS)
    draws = parser.parse_args().draws
    started = time.monotonic()
    rng = np.random.default_rng(0)
    print(
        "| videos | per doubling | accuracy % | asked | bias | whole videos | coverage % "
        "| width | planned |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for kind in VIDEOS:
        for factor in FACTORS:
            for accuracy in ACCURACIES:
                for asked in ASKED:
                    cells = simulate(rng, kind, asked, accuracy, factor, draws)
                    planned = planned_widths(QUESTIONS)[asked - 1]
                    print(
                        f"| {kind} | {factor:g} | {accuracy} | {asked} | {cells} | {planned:.1f} |",
                        flush=True,
                    )
    seconds = time.monotonic() - started
    print(
        f"\n{draws:,} draws, scipy {scipy.__version__}, Python "
        f"{platform.python_version()}, {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
