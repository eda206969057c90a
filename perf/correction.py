"""Simulate the coverage and the width of the intervals of `lmms_egoplan.stats.correction`.

Each study draws 700 answers from a population of ratings by people (0, 0.5, 1), in dimensions of
EgoThink's sizes that differ in difficulty. A judge rates them, `draw` takes a sample by dimension
and the judge's rating, and people rate it. The truth is the population's mean. The columns:

corrected   share of studies whose corrected interval contains the truth
people      share of studies whose interval from people alone contains the truth
error       share of studies whose interval of the judge's error contains that error
width       mean width of the corrected intervals, relative to Student's t interval from people
alone formula     sqrt(1 - r² N / (n + N)) with the judge's true correlation r, n rated and N other
answers; if r < 0, 1

    python perf/correction.py                               # 1 to 3 minutes on one core
"""

import argparse
import platform
import sys
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from scipy.special import stdtrit

from lmms_egoplan.stats.correction import FEWEST_RATED, corrected, draw

STUDIES = 2000
SIZES = (FEWEST_RATED, 60, 100, 200)
LEAST = 0.93 - 2 * (0.93 * 0.07 / STUDIES) ** 0.5
"""Smallest accepted coverage: 93 %, less two standard errors of 2,000 studies."""

LEVELS = np.array([0, 0.5, 1])
QUESTIONS = np.array([50, 50, 50, 100, 50, 50, 50, 50, 50, 100, 50, 50])
DIMENSION = np.repeat(np.arange(len(QUESTIONS)), QUESTIONS)
# Change in the log odds of a rating of 1 against 0.
DIFFICULTY = np.linspace(-0.8, 0.8, len(QUESTIONS))
POPULATIONS = {"middling": (0.3, 0.2, 0.5), "high": (0.1, 0.1, 0.8)}
SAME, UP, DOWN = np.eye(3), np.eye(3)[[1, 2, 2]], np.eye(3)[[0, 0, 1]]
OPPOSITE, HALF, RIGHT = np.eye(3)[::-1], np.eye(3)[[1, 1, 1]], np.eye(3)[[2, 2, 2]]


@dataclass(frozen=True)
class Scenario:
    """A population and a judge.

    population: key of `POPULATIONS`.
    judge: key of `judges`.
    weigh: true for the plain mean over the dimensions, false for the mean over the answers.
    """

    population: str
    judge: str
    weigh: bool = False

    @cached_property
    def ratings(self) -> np.ndarray:
        """Probability of each rating by people, for each answer."""
        odds = np.array(POPULATIONS[self.population]) * np.exp(DIFFICULTY[:, None] * LEVELS)
        return (odds / odds.sum(1, keepdims=True))[DIMENSION]

    @cached_property
    def judging(self) -> np.ndarray:
        """Probability of each rating by the judge (columns), given that by people (rows)."""
        return judges(self.ratings.mean(0))[self.judge]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weight of each answer, with a sum of 1."""
        return (
            1 / QUESTIONS[DIMENSION] / len(QUESTIONS)
            if self.weigh
            else np.full(len(DIMENSION), 1 / len(DIMENSION))
        )

    @property
    def truth(self) -> float:
        """Mean rating by people."""
        return self.weights @ self.ratings @ LEVELS

    @property
    def error(self) -> float:
        """Mean rating by people, minus that by the judge."""
        return self.weights @ self.ratings @ (LEVELS - self.judging @ LEVELS)

    @property
    def correlation(self) -> float:
        """Pearson's r of judge and people over all answers; 0 for a constant judge."""
        joint = self.ratings.mean(0)[:, None] * self.judging
        people, judge = joint.sum(1), joint.sum(0)
        deviations = [np.sqrt(share @ (LEVELS - share @ LEVELS) ** 2) for share in (people, judge)]
        covariance = LEVELS @ joint @ LEVELS - (people @ LEVELS) * (judge @ LEVELS)
        return covariance / np.prod(deviations) if min(deviations) > 1e-9 else 0.0

    def draw(self, studies: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw the levels of the ratings by people and by the judge, shape (studies, answers)."""
        people = (rng.random((studies, len(DIMENSION), 1)) > self.ratings.cumsum(1)[:, :2]).sum(2)
        judge = (
            rng.random((studies, len(DIMENSION), 1)) > self.judging.cumsum(1)[people][..., :2]
        ).sum(2)
        return people, judge


def judges(shares: np.ndarray) -> dict[str, np.ndarray]:
    """Return the judges: the probability of each rating by the judge, given that by people.

    shares: share of each rating by people. A judge that guesses among them has an error of 0 on
    average.
    """
    return {
        "noise, r = 0.8": 0.8 * SAME + 0.2 * shares,
        "noise, r = 0.5": 0.5 * SAME + 0.5 * shares,
        "lenient": 0.6 * SAME + 0.4 * UP,
        "harsh": 0.6 * SAME + 0.4 * DOWN,
        "favours 0.5": 0.5 * SAME + 0.5 * HALF,
        "rare large errors, up": np.diag([0.9, 1, 1]) + 0.1 * np.outer(SAME[0], SAME[2]),
        "rare large errors, down": np.diag([1, 1, 0.95]) + 0.05 * np.outer(SAME[2], SAME[0]),
        "rare large errors, both": 0.97 * SAME + 0.03 * OPPOSITE,
        "nearly perfect": 0.98 * SAME + 0.02 * UP,
        "constant": RIGHT,
        "anticorrelated": 0.3 * SAME + 0.7 * OPPOSITE,
    }


def simulate(
    scenario: Scenario, size: int, studies: int = STUDIES, seed: int = 0
) -> dict[str, float]:
    """Return the columns of one scenario and sample size, as fractions."""
    rng = np.random.default_rng(seed)
    probabilities = np.full(len(DIMENSION), size / len(DIMENSION))
    quantile = stdtrit(size - 1, 0.975)
    covered, widths = np.zeros(3), np.zeros(2)
    for people, judge in zip(*scenario.draw(studies, rng), strict=True):
        # The seed of `draw` depends only on the strata, so the answers of a stratum are in random
        # order here.
        order = rng.permutation(len(DIMENSION))
        sample = order[draw((3 * DIMENSION + judge)[order].tolist(), size)]
        rated = np.full(len(DIMENSION), np.nan)
        rated[sample] = LEVELS[people[sample]]
        result = corrected(LEVELS[judge], rated, probabilities, scenario.weights)
        both = (
            (result.corrected, scenario.truth),
            (result.people, scenario.truth),
            (result.error, scenario.error),
        )
        covered += [estimate.low <= truth <= estimate.high for estimate, truth in both]
        shares = scenario.weights[sample] / scenario.weights[sample].sum()
        deviations = shares * (rated[sample] - shares @ rated[sample])
        classical = quantile * np.sqrt(deviations @ deviations * size / (size - 1))
        widths += (result.corrected.high - result.corrected.low, 2 * classical)
    rest = 1 - size / len(DIMENSION)
    return {
        **dict(zip(("corrected", "people", "error"), covered / studies, strict=True)),
        "width": widths[0] / widths[1],
        "formula": np.sqrt(1 - max(0, scenario.correlation) ** 2 * rest),
    }


def main() -> int:
    """Print a table of all scenarios.

    Return 1 if a corrected interval contains the truth too rarely.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=STUDIES, help="number of studies per row")
    studies = parser.parse_args().studies
    begin = time.perf_counter()
    print(f"{studies:,} studies, scipy {scipy.__version__}, Python {platform.python_version()}:\n")
    print(f"Each cell has n = {', '.join(map(str, SIZES))}.\n")
    print(
        "| population | judge | r | corrected % | people % | error % | width | formula |\n|---|---|"
        + "---:|" * 6
    )
    least = 1.0
    names = judges(np.array(POPULATIONS["middling"]))
    for scenario in (Scenario(name, judge, True) for name in POPULATIONS for judge in names):
        rows = [simulate(scenario, size, studies) for size in SIZES]
        least = min(least, *(row["corrected"] for row in rows))
        cells = [
            ", ".join(f"{100 * row[name]:.1f}" for row in rows)
            for name in ("corrected", "people", "error")
        ]
        cells += [", ".join(f"{row[name]:.2f}" for row in rows) for name in ("width", "formula")]
        start = f"| {scenario.population} | {scenario.judge} | {scenario.correlation:.2f} |"
        print(start, " | ".join(cells), "|", flush=True)
    print(
        f"\nLowest coverage of the corrected interval: {100 * least:.1f} %. "
        f"{time.perf_counter() - begin:.0f} s"
    )
    return int(least < LEAST)


if __name__ == "__main__":
    sys.exit(main())
