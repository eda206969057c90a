"""Simulate the coverage and the width of the intervals of compact runs.

A population has 3,355 right-or-wrong questions in videos of two sources. The accuracy differs by source and by length
of progress, and the answers of a video correlate. `benchmarks.subset.draw` draws a subset, and `bootstrap_interval`
makes its interval for the accuracy over all questions. Each draw has another seed; 10 draws share a population. The
columns:

coverage    share of intervals that contain the accuracy over all questions, with its Monte Carlo standard error, which
            takes the draws of a population as dependent
none        share of draws without an interval: too few videos
width       mean width of the intervals, in points
asked       mean number of questions
bootstrap   mean width of the ordinary interval of the same answers, which is about all possible videos

    python perf/compact.py                              # about 15 minutes on one core
    python perf/compact.py --draws 200                  # to try it
"""

import argparse
import platform
import time
from collections.abc import Iterator
from itertools import product

import numpy as np
import scipy

from lmms_egoplan.benchmarks.subset import ASSUMED_CORRELATION, draw
from lmms_egoplan.report.statistics import bootstrap_interval

DRAWS = 2000
SHARED = 10
QUESTIONS = 3355
SIZES = (100, 300, 1000)
ACCURACIES = (25, 50, 90)
CORRELATIONS = (0, 0.2, 0.5)
SETTINGS = [*product(ACCURACIES, CORRELATIONS)]
WIDTHS = (2, 10)
# Number of videos, and standard deviation of the logarithm of their sizes.
VIDEOS = {"420 equal": (420, 0), "340 skewed": (340, 0.8), "200 very skewed": (200, 1.2)}


class Population:
    """Questions of one benchmark, and the answers of a model for each setting.

    Attributes:
        videos: Number of the video of each question.
        questions: The questions for `draw`.
        right: The answers by accuracy and correlation: 1 or 0 for each question.
    """

    def __init__(self, kind: str, rng: np.random.Generator) -> None:
        """Draw videos and answers."""
        count, deviation = VIDEOS[kind]
        shares = np.exp(deviation * rng.standard_normal(count))
        sizes = 1 + rng.multinomial(QUESTIONS - count, shares / shares.sum())
        source, length = rng.random(count) < 0.7, rng.random(count) * 10
        self.videos = np.repeat(np.arange(count), sizes)
        labels = np.where(source, "EpicKitchens", "Ego4D")[self.videos].tolist()
        self.questions = list(zip(map(str, self.videos), labels, length[self.videos].tolist(), strict=True))
        self.right = {}
        for accuracy, correlation in SETTINGS:
            odds = np.log(accuracy / (100 - accuracy)) + 0.3 * (source - 0.7) + 0.04 * (length - 5)
            means = 1 / (1 + np.exp(-odds))
            scale = 1 / correlation - 1 if correlation else np.inf
            chances = rng.beta(means * scale, (1 - means) * scale) if correlation else means
            self.right[accuracy, correlation] = (rng.random(QUESTIONS) < chances[self.videos]).astype(float)


def simulate(kind: str, wanted: str, draws: int) -> dict[tuple[float, float], dict[str, float]]:
    """Return the columns of each setting, as fractions. A draw of videos serves all settings."""
    rng = np.random.default_rng([*VIDEOS].index(kind))
    covered: dict = {setting: [] for setting in SETTINGS}
    widths: dict = {setting: [] for setting in SETTINGS}
    bootstraps: dict = {setting: [] for setting in SETTINGS}
    asked = []
    for number in range(draws):
        if number % SHARED == 0:
            population = Population(kind, rng)
        videos, design = draw(population.questions, f"{kind} {number}", wanted)
        rows = np.isin(population.videos, [int(video) for video in videos])
        asked.append(design["asked"])
        for setting, right in population.right.items():
            interval = bootstrap_interval(right[rows], population.videos[rows], design | {"top": 1.0})
            if number % SHARED == 0:
                covered[setting].append([])
            if interval is not None:
                low, high = interval
                covered[setting][-1].append(low - 1e-9 <= right.mean() <= high + 1e-9)
                widths[setting].append(high - low)
            if number < SHARED and (ordinary := bootstrap_interval(right[rows], population.videos[rows])):
                bootstraps[setting].append(ordinary[1] - ordinary[0])
    columns = {}
    for setting in SETTINGS:
        counts = np.array([(sum(shared), len(shared)) for shared in covered[setting]])
        coverage = counts[:, 0].sum() / counts[:, 1].sum()
        error = np.sqrt(((counts[:, 0] - coverage * counts[:, 1]) ** 2).sum()) / counts[:, 1].sum()
        of_setting = np.array(widths[setting])
        columns[setting] = {
            "coverage": coverage,
            "error": error,
            "none": 1 - len(of_setting) / draws,
            "width": of_setting.mean(),
            "reached": np.mean(of_setting <= float(wanted[6:]) / 100) if "=" in wanted else np.nan,
            "asked": np.mean(asked),
            "bootstrap": np.mean(bootstraps[setting]) if bootstraps[setting] else np.nan,
        }
    return columns


def rows(all_wanted: list[str], draws: int) -> Iterator[tuple[str, str, tuple[float, float], dict[str, float]]]:
    """Yield the columns of each kind of population, size of subset, and setting."""
    for kind, wanted in product(VIDEOS, all_wanted):
        for setting, columns in simulate(kind, wanted, draws).items():
            yield kind, wanted, setting, columns


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=DRAWS)
    draws, start = parser.parse_args().draws, time.monotonic()
    print(f"{draws:,} draws, scipy {scipy.__version__}, Python {platform.python_version()}\n")
    print("| videos | accuracy % | correlation | questions | asked | coverage % | none % | width | bootstrap |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    lowest = (1.0, ())
    for kind, size, (accuracy, correlation), x in rows([str(size) for size in SIZES], draws):
        cells = f"{x['asked']:.0f} | {100 * x['coverage']:.1f} ± {100 * x['error']:.1f} | {100 * x['none']:.1f}"
        ends = f"{100 * x['width']:.1f} | {100 * x['bootstrap']:.1f}"
        print(f"| {kind} | {accuracy} | {correlation} | {size} | {cells} | {ends} |", flush=True)
        lowest = min(lowest, (x["coverage"], (kind, accuracy, correlation, size)))
    print(f"\nLowest coverage: {100 * lowest[0]:.1f} %, {lowest[1]}\n")
    print(f"Planned widths, which assume an accuracy of 50 % and a correlation of {ASSUMED_CORRELATION}:\n")
    print("| videos | accuracy % | correlation | target | asked | mean width | reached % | coverage % |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for kind, width, (accuracy, correlation), x in rows([f"width={width}" for width in WIDTHS], draws // 5):
        cells = f"{x['asked']:.0f} | {100 * x['width']:.1f} | {100 * x['reached']:.0f} | {100 * x['coverage']:.1f}"
        print(f"| {kind} | {accuracy} | {correlation} | {width[6:]} | {cells} |", flush=True)
    print(f"\n{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
