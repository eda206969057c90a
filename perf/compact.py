"""Simulate the coverage and the width of the intervals of compact runs.

A population has 3,355 right-or-wrong questions in videos of two sources. The accuracy differs by source and by length
of progress, and the answers of a video correlate. `benchmarks.subset.draw` draws a subset, and `subset_interval`
makes its interval for the accuracy over all questions. Each draw has another seed; 10 draws share a population. The
columns:

coverage    share of intervals that contain the accuracy over all questions, with its Monte Carlo standard error, which
            takes the draws of a population as dependent
none        share of draws without an interval: too few videos
width       mean width of the intervals, in points
reached     with a target width: share of intervals that are at most that wide
asked       mean number of questions

    python perf/compact.py                              # about 3 minutes on one core
    python perf/compact.py --draws 200                  # to try it
"""

import argparse
import platform
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np
import scipy

from lmms_egoplan.benchmarks.subset import ASSUMED_CORRELATION, draw, planned_widths
from lmms_egoplan.report.statistics import FEWEST_DRAWN, subset_interval

DRAWS = 2000
SHARED = 10
QUESTIONS = 3355
ACCURACIES = (25, 50, 90)
CORRELATIONS = (0, 0.2, 0.5)
SETTINGS = [*product(ACCURACIES, CORRELATIONS)]
WANTED = ("100", "300", "1000", "width=2", "width=10")
# Number of videos, and standard deviation of the logarithm of their sizes.
VIDEOS = {"420 equal": (420, 0), "340 skewed": (340, 0.8), "200 very skewed": (200, 1.2)}


class Population:
    """Questions of one benchmark, and the answers of a model for each setting.

    Attributes:
        sizes: Number of questions of each video.
        questions: The questions for `draw`.
        right: Number of right answers of each video, by accuracy and correlation.
    """

    def __init__(self, kind: str, rng: np.random.Generator) -> None:
        """Draw videos and answers."""
        count, deviation = VIDEOS[kind]
        shares = np.exp(deviation * rng.standard_normal(count))
        sizes = 1 + rng.multinomial(QUESTIONS - count, shares / shares.sum())
        source, length = rng.random(count) < 0.7, rng.random(count) * 10
        videos, self.sizes = np.repeat(np.arange(count), sizes), sizes
        labels = np.where(source, "EpicKitchens", "Ego4D")[videos].tolist()
        self.questions = list(zip(map(str, videos), labels, length[videos].tolist(), strict=True))
        self.right = {}
        for accuracy, correlation in SETTINGS:
            odds = np.log(accuracy / (100 - accuracy)) + 0.3 * (source - 0.7) + 0.04 * (length - 5)
            means = 1 / (1 + np.exp(-odds))
            scale = 1 / correlation - 1 if correlation else np.inf
            chances = rng.beta(means * scale, (1 - means) * scale) if correlation else means
            self.right[accuracy, correlation] = rng.binomial(sizes, chances)


def simulate(kind: str, draws: int) -> Iterator[tuple[str, tuple[float, float], dict[str, float]]]:
    """Yield each size or width, each setting and its columns, as fractions. A draw of videos serves all of them."""
    rng = np.random.default_rng([*VIDEOS].index(kind))
    hits: dict = defaultdict(lambda: np.zeros((-(-draws // SHARED), 2)))
    widths, asked = defaultdict(list), defaultdict(list)
    for number in range(draws):
        if number % SHARED == 0:
            population = Population(kind, rng)
        order, whole = draw(population.questions, f"{kind} {number}", str(QUESTIONS))
        sizes = population.sizes[np.array(order, dtype=int)]
        up_to, planned = np.cumsum(sizes), planned_widths(sizes)
        for wanted in WANTED:
            # The subset is the beginning of the order of all videos.
            drawn = int(sum(planned > float(wanted[6:])) + 1 if "=" in wanted else sum(up_to <= int(wanted)))
            design = whole | {"drawn": drawn, "asked": int(up_to[drawn - 1]), "width": float(planned[drawn - 1])}
            if number < 2:
                assert (order[:drawn], design) == draw(population.questions, f"{kind} {number}", wanted)
            asked[wanted].append(design["asked"])
            for setting, right in population.right.items():
                rows = np.stack([right[np.array(order[:drawn], dtype=int)], sizes[:drawn]], axis=-1)
                interval = None
                if drawn >= FEWEST_DRAWN:
                    ends = design | {"top": 1.0}
                    interval = subset_interval(rows, sizes[:drawn], lambda sums: sums[..., 0] / sums[..., 1], ends)
                if interval is not None:
                    low, high = interval
                    is_inside = low - 1e-9 <= right.sum() / QUESTIONS <= high + 1e-9
                    hits[wanted, setting][number // SHARED] += is_inside, 1
                    widths[wanted, setting].append(high - low)
    for wanted, setting in product(WANTED, SETTINGS):
        inside, counted = hits[wanted, setting].T
        coverage = inside.sum() / counted.sum()
        of_setting = np.array(widths[wanted, setting])
        yield (
            wanted,
            setting,
            {
                "coverage": coverage,
                "error": np.sqrt(((inside - coverage * counted) ** 2).sum()) / counted.sum(),
                "none": 1 - len(of_setting) / draws,
                "width": of_setting.mean(),
                "reached": np.mean(of_setting <= float(wanted[6:]) / 100) if "=" in wanted else np.nan,
                "asked": np.mean(asked[wanted]),
            },
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=DRAWS)
    draws, start = parser.parse_args().draws, time.monotonic()
    print(f"{draws:,} draws, scipy {scipy.__version__}, Python {platform.python_version()}\n")
    print(
        "| videos | questions or width | accuracy % | correlation | asked | coverage % | none % | width | reached % |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    lowest = (1.0, ())
    for kind in VIDEOS:
        for wanted, (accuracy, correlation), x in simulate(kind, draws):
            cells = f"{x['asked']:.0f} | {100 * x['coverage']:.1f} ± {100 * x['error']:.1f} | {100 * x['none']:.1f}"
            reached = "" if np.isnan(x["reached"]) else f"{100 * x['reached']:.0f}"
            ends = f"{100 * x['width']:.1f} | {reached}"
            print(f"| {kind} | {wanted} | {accuracy} | {correlation} | {cells} | {ends} |", flush=True)
            lowest = min(lowest, (x["coverage"], (kind, wanted, accuracy, correlation)))
    print(f"\nLowest coverage: {100 * lowest[0]:.1f} %, {lowest[1]}")
    print(f"The planned widths assume an accuracy of 50 % and a correlation of {ASSUMED_CORRELATION}.")
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
