"""Simulate the coverage of the intervals of the information gain:

`lmms_egoplan.report.egoplan.gain`.

A draw has questions in videos. A question's four choices have log-probabilities without the video,
and with it. The video adds a video's effect and a question's effect to the right choice; the wrong
choices only get noise. "Skewed" gains are log-normal: most are small, a few are large. The true
mean is known for the right choice. For the margin, it is the mean of 4 million questions.

Each row has 2,000 draws. The error is one standard error of the coverage, in points.

    python perf/gain.py                               # 10 minutes on one busy core
"""

import platform
import time

import numpy as np
import scipy

from lmms_egoplan.report.egoplan.gain import information_gain
from lmms_egoplan.stats.intervals import bootstrap_interval

DRAWS = 2000
CHUNKS, CHUNK = 8, 500_000
CHOICES = 4
MEAN = 1.0
LEAST = 0.90
"""Least accepted coverage of a row with at least 60 videos."""
ROWS = (
    (np.full(12, 10), "normal", 0.3),
    (np.full(30, 7), "normal", 0.3),
    (np.full(30, 7), "skewed", 0.3),
    (np.full(60, 7), "normal", 0.0),
    (np.full(60, 7), "skewed", 0.3),
)


def effects(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    """Draw effects with mean 0 and standard deviation 1."""
    if kind == "skewed":
        return (rng.lognormal(0, 1, size) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
    return rng.normal(size=size)


def logprobs(
    rng: np.random.Generator, videos: np.ndarray, kind: str, correlation: float
) -> np.ndarray:
    """Draw log-probabilities with and without the video, shape (2, questions, choices).

    The first choice is right.
    """
    count = len(videos)
    unseen = rng.normal(-8, 2, (count, CHOICES))
    seen = unseen + rng.normal(0, 1, (count, CHOICES))
    of_video = effects(rng, kind, videos.max() + 1)[videos]
    seen[:, 0] += (
        MEAN
        + np.sqrt(correlation) * of_video
        + np.sqrt(1 - correlation) * effects(rng, kind, count)
    )
    return np.stack([seen, unseen])


def gains(values: np.ndarray) -> np.ndarray:
    """Return `information_gain` of all questions, shape (2, questions)."""
    margins = values[:, :, 0] - values[:, :, 1:].max(axis=2)
    return np.stack([values[0, :, 0] - values[1, :, 0], margins[0] - margins[1]])


def main() -> None:
    """Print a row per kind of questions; exit with an error if a coverage is too low."""
    started = time.monotonic()
    rng, low = np.random.default_rng(0), []
    print("| questions | gains | correlation | right choice % | margin % | error |")
    print("|---|---|---:|---:|---:|---:|")
    for sizes, kind, correlation in ROWS:
        videos = np.repeat(np.arange(len(sizes)), sizes)
        first = logprobs(rng, videos, kind, correlation)
        slow = [information_gain(*first[:, question], 0) for question in range(len(videos))]
        assert np.allclose(gains(first).T, slow)
        # Questions of their own videos have the same marginal distribution.
        many = [
            gains(logprobs(rng, np.arange(CHUNK), kind, correlation))[1].mean()
            for _ in range(CHUNKS)
        ]
        true, names, covered = (MEAN, np.mean(many)), videos.astype(str), np.zeros(2)
        for _ in range(DRAWS):
            for measure, drawn in enumerate(gains(logprobs(rng, videos, kind, correlation))):
                ends = bootstrap_interval(drawn, names)
                covered[measure] += ends[0] <= true[measure] <= ends[1]
        shares = covered / DRAWS
        error = 100 * np.sqrt(shares.min() * (1 - shares.min()) / DRAWS)
        of = str(sizes[0])
        cells = f"{100 * shares[0]:.1f} | {100 * shares[1]:.1f} | {error:.1f}"
        print(f"| {len(sizes)} videos of {of} | {kind} | {correlation:g} | {cells} |", flush=True)
        low += [of] if len(sizes) >= 60 and shares.min() < LEAST else []
    seconds = time.monotonic() - started
    print(
        f"\n{DRAWS:,} draws, scipy {scipy.__version__}, Python "
        f"{platform.python_version()}, {seconds:.0f} s"
    )
    if low:
        raise SystemExit("too low a coverage")


if __name__ == "__main__":
    main()
