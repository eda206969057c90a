"""Draw the subset of a compact run: whole videos, stratified, the same for every model and order of the rows."""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import groupby
from statistics import fmean
from typing import Any

import numpy as np
from scipy.special import stdtrit

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.errors import LmmsEgoplanError

SUBSET = "LMMS_EGOPLAN_SUBSET"
"""Environment variable: the largest number of questions, or ``width=`` and the width of an interval in points."""

COLUMN = "subset"
"""Column of prepared rows: the design of a question in the subset, None for all other questions."""

ASSUMED_CORRELATION = 0.2
"""Correlation of two scores of one video that the planning formula assumes: this project's own choice."""

EXPECTED = (
    "{asked:,} of {of:,} questions, {drawn:,} of {videos:,} videos. Expected width of the 95 % interval: up to about "
    "{width:.1f} points, if half of the answers are right and those of a video correlate by {correlation}"
)
# Strata by the mean length of a video's progress.
_LENGTHS = 3

Question = tuple[str, str, float]
"""Video, label of the stratum, and length of the progress."""


def draw(questions: Iterable[Question], seed: str, wanted: str) -> tuple[list[str], dict[str, Any]]:
    """Draw whole videos from strata by label and, within a label, by terciles of the videos' mean lengths.

    The videos are sorted by stratum, then by their number of questions, then at random. The subset is the beginning of
    a randomly shifted van der Corput sequence of their ranks: its videos are evenly spaced. So each stratum and size
    has its share, each video has the same probability, and a larger subset contains each smaller one. The random
    numbers depend only on the seed.

    Args:
        questions: All questions, in any order.
        seed: Any text, such as the fingerprint of the data.
        wanted: Value of `SUBSET`. The subset has at most this number of questions, but at least one video.

    Returns:
        The drawn videos, and the design: the numbers of ``videos`` and of ``drawn`` videos; the numbers of ``asked``
        questions and ``of`` all questions; ``spread``, the mean of the squared numbers of questions of all videos,
        divided by the square of their mean; and ``width``, the width of the interval to expect, in points.

    Raises:
        LmmsEgoplanError: `wanted` is malformed.

    >>> questions = [(f"video {number}", "Work", number) for number in range(30)] * 4
    >>> videos, design = draw(questions, "seed", "50")
    >>> design["drawn"], design["asked"], design["of"], {*videos} < {*draw(questions, "seed", "90")[0]}
    (12, 48, 120, True)
    """
    videos: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for video, label, length in questions:
        videos[video].append((label, length))
    ranked: list[str] = []
    means = sorted((min(rows)[0], fmean(length for _, length in rows), video) for video, rows in videos.items())
    for _, stratum in groupby(means, lambda entry: entry[0]):
        for part in np.array_split([video for *_, video in stratum], _LENGTHS):
            ranked += sorted(map(str, part), key=lambda video: (len(videos[video]), _random(seed, video)))
    bits, shift = len(ranked).bit_length(), _random(seed) % 2 ** len(ranked).bit_length()
    keys = [f"{rank ^ shift:0{bits}b}"[::-1] for rank in range(len(ranked))]
    order = [video for _, video in sorted(zip(keys, ranked, strict=True))]
    sizes = np.array([len(videos[video]) for video in order])
    widths, asked, (kind, _, number) = planned_widths(sizes), np.cumsum(sizes), wanted.rpartition("=")
    if kind not in ("", "width") or not number.replace(".", "", bool(kind)).isdecimal() or not float(number):
        raise LmmsEgoplanError(f"{SUBSET}={wanted}: must be a number of questions, or width=POINTS; correct it")
    count = sum(widths > float(number)) + 1 if kind else max(1, sum(asked <= float(number)))
    facts = {"videos": len(order), "drawn": int(count), "asked": int(asked[count - 1]), "of": int(asked[-1])}
    spread = float((sizes**2).mean() / sizes.mean() ** 2)
    return order[:count], facts | {"spread": spread, "width": float(widths[count - 1])}


def planned_widths(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the width to expect of the interval from each number of videos, from one on, in points of 100.

    Assumes that half of the answers are right, and `ASSUMED_CORRELATION` within a video. The widths do not increase.

    Args:
        sizes: Number of questions of each video.

    >>> planned_widths([10] * 100).round(1)[[1, 9, 49, 99]]
    array([100. ,  35.9,  10.6,   0. ])
    """
    sizes = np.asarray(sizes, dtype=float)
    count, spread = np.arange(1, len(sizes) + 1), (sizes**2).mean() / sizes.mean() ** 2
    variance = (1 + ASSUMED_CORRELATION * (spread * sizes.mean() - 1)) / 4 / (count * sizes.mean())
    quantile = stdtrit(np.maximum(1, count / spread - 1), 0.975)
    return np.minimum(100, 200 * quantile * np.sqrt(variance * (1 - count / len(sizes))))


def designs_of(benchmark: str, split: str, wanted: str = "") -> dict[Any, dict[str, Any]]:
    """Return the design by id of each question of a subset, see `draw`; empty for all questions.

    Args:
        benchmark, split: The prepared data.
        wanted: Value of `SUBSET`. Default: the environment's.

    Raises:
        LmmsEgoplanError: `wanted` is malformed, the split is not prepared, or the benchmark has no compact runs.
    """
    if not (wanted := wanted or os.environ.get(SUBSET, "")):
        return {}
    prepared = next(data for data in SPLITS if data.benchmark == benchmark)
    if not prepared.strata:
        names = ", ".join(data.benchmark for data in SPLITS if data.strata)
        raise LmmsEgoplanError(f"{benchmark}: no compact runs, which draw whole videos; use {names}")
    ids, videos, labels, progress = (prepared.load(split)[name][:] for name in prepared.strata)
    lengths = (len(value) if isinstance(value, list) else value for value in progress)
    drawn, design = draw(zip(videos, labels, lengths, strict=True), prepared.fingerprint(split), wanted)
    asked = {*drawn} if design["asked"] < design["of"] else set()
    return {id_: design for id_, video in zip(ids, videos, strict=True) if video in asked}


def mark(rows: Any, benchmark: str, split: str, *, only: bool = False) -> Any:
    """Add `COLUMN` to the rows of a prepared split if the environment asks for a subset.

    Args:
        rows: A dataset with all or some rows of the split.
        benchmark, split: The prepared data.
        only: True to return only the rows of the subset.

    Raises:
        LmmsEgoplanError: See `designs_of`.
    """
    if not (designs := designs_of(benchmark, split)) or COLUMN in rows.column_names:
        return rows
    values = [designs.get(id_) for id_ in rows["sample_id" if "sample_id" in rows.column_names else "step_id"]]
    asked = [index for index, value in enumerate(values) if value or not only]
    return rows.add_column(COLUMN, values).select(asked)


def _random(*parts: str) -> int:
    """Return a large random number that depends only on some texts."""
    return int(sha256(repr(parts).encode()).hexdigest(), 16)
