"""Simulate the interval of "clean minus overlapping", and measure the search for near-duplicate texts.

Coverage: a video's questions are right with a probability that varies between videos (correlation within videos). A
share of the videos overlaps with training data, at least ten; in "mixed" rows, a third of the videos has questions of
both kinds. Overlapping questions are easier by 10 points. A row counts the intervals that contain this difference, with
the Monte Carlo error of this share.

    python perf/overlap.py                     # coverage: about 3 minutes on one core
    python perf/overlap.py --texts 50000       # time of 3,355 questions against so many training texts
"""

import argparse
import random
import resource
import time
from typing import Any

import numpy as np
from scipy.stats import beta

from lmms_egoplan.overlap.matching import similar_texts
from lmms_egoplan.report.overlap import difference
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, interval_of_sums

DRAWS = 2000
GAIN = 0.1
# Name, videos, mean number of questions per video, correlation within videos, share of overlapping videos, mixed.
ROWS = [
    ("60 videos of 8", 60, 8, 0.1, 0.17, False),
    ("60 videos of 8", 60, 8, 0.1, 0.5, True),
    ("100 videos of 10", 100, 10, 0.1, 0.3, False),
    ("100 videos of 10", 100, 10, 0.3, 0.1, False),
]


def draw(
    chance: np.random.Generator, videos: int, size: int, correlation: float, share: float, mixed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw questions: right or wrong, kind and video."""
    sizes = 1 + chance.poisson(size - 1, videos)
    spread = (1 - correlation) / correlation
    rank = chance.random(videos)
    clean, easier = (beta.ppf(rank, mean * spread, (1 - mean) * spread) for mean in (0.4, 0.4 + GAIN))
    overlaps = np.zeros(videos, bool)
    overlaps[: max(FEWEST_CLUSTERS, round(share * videos))] = True
    video = np.repeat(np.arange(videos), sizes)
    kind = overlaps[video]
    if mixed:
        kind = np.where(video % 3 == 0, chance.random(len(video)) < share, kind)
    right = chance.random(len(video)) < np.where(kind, easier[video], clean[video])
    return right, kind, video


def coverage(*row: Any) -> tuple[float, float]:
    """Return the share of intervals that contain the true difference, and their mean width."""
    chance = np.random.default_rng(0)
    hits, widths = [], []
    for _ in range(DRAWS):
        right, kind, video = draw(chance, *row)
        sums = np.zeros((len(right), 2, 2))
        sums[np.arange(len(right)), kind.astype(int)] = np.stack([right, np.ones(len(right))], axis=-1)
        low, high = interval_of_sums(sums, video, difference)
        hits.append(low <= -GAIN <= high)
        widths.append(high - low)
    return np.mean(hits), np.mean(widths)


def measure_texts(count: int) -> None:
    """Time the search for near-duplicates among texts of about 60 characters."""
    chance = random.Random(0)
    words = ["".join(chance.choices("aeioubcdfghklmnprst", k=chance.randint(2, 9))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, 3001)]

    def make(number: int) -> list[str]:
        return [" ".join(chance.choices(words, weights, k=11)) for _ in range(number)]

    questions, training = make(3355), make(count)
    started = time.monotonic()
    count_of_results = len(list(similar_texts(questions, training)))
    seconds, peak = time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{count_of_results:,} questions, {count:,} training texts: {seconds:.1f} s, peak {peak:.1f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, help="number of training texts; without it, coverage")
    if count := parser.parse_args().texts:
        measure_texts(count)
        return
    print("| questions | correlation | overlapping videos % | mixed | coverage % | Monte Carlo error | width |")
    print("|---|---:|---:|---|---:|---:|---:|")
    for name, *row in ROWS:
        share, width = coverage(*row)
        error = 100 * (share * (1 - share) / DRAWS) ** 0.5
        mixed = "yes" if row[4] else "no"
        print(
            f"| {name} | {row[2]} | {100 * row[3]:g} | {mixed} | {100 * share:.1f} | {error:.1f} | {100 * width:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
