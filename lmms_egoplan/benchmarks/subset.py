"""Draw the subset of a compact run: whole videos, stratified, the same for every model and order of the rows."""

import os
from collections.abc import Iterable
from itertools import groupby
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.errors import LmmsEgoplanError

if TYPE_CHECKING:
    import numpy as np

SUBSET = "LMMS_EGOPLAN_SUBSET"
"""Environment variable: the largest number of questions, or ``width=`` and the width of an interval in points."""

COLUMN = "subset"
"""Column of prepared rows: the design of a question in the subset, None for all other questions."""

ASSUMED_CORRELATION = 0.25
"""Correlation of two scores of one video that the planning formula assumes: this project's own choice."""

# Strata by the mean length of a video's progress.
_LENGTHS = 3


def draw(questions: Iterable[tuple[str, str, float]], seed: str, wanted: str) -> tuple[list[str], dict[str, Any]]:
    """Draw whole videos from strata by label and, within a label, by terciles of the videos' mean lengths.

    The videos are sorted by stratum, then by their number of questions, then at random. The subset is the beginning of
    a randomly shifted van der Corput sequence of their ranks: its videos are evenly spaced. So each stratum and size
    has its share, each video has the same probability, and a larger subset contains each smaller one. The random
    numbers depend only on the seed.

    Args:
        questions: Video, label of the stratum, and length of the progress of each question, in any order.
        seed: Any text, such as the benchmark's name.
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
    import numpy as np  # The plugin of lmms-eval imports this module at startup.

    videos = {video: [*rows] for video, rows in groupby(sorted(questions), lambda question: question[0])}
    means = sorted((rows[0][1], fmean(length for *_, length in rows), video) for video, rows in videos.items())
    random, ranked, bits = Random(seed), [], len(videos).bit_length()
    for _, stratum in groupby(means, lambda entry: entry[0]):
        for part in np.array_split([video for *_, video in stratum], _LENGTHS):
            ranked += sorted(random.sample([*map(str, part)], len(part)), key=lambda video: len(videos[video]))
    shift = random.getrandbits(bits)
    order = [ranked[rank] for rank in sorted(range(len(ranked)), key=lambda rank: f"{rank ^ shift:0{bits}b}"[::-1])]
    sizes = np.array([len(videos[video]) for video in order])
    widths, asked, (kind, _, number) = planned_widths(sizes), np.cumsum(sizes), wanted.rpartition("=")
    if kind not in ("", "width") or not number.replace(".", "", bool(kind)).isdecimal() or not float(number):
        raise LmmsEgoplanError(f"{SUBSET}={wanted}: must be a number of questions, or width=POINTS; correct it")
    count = sum(widths > float(number)) + 1 if kind else max(1, sum(asked <= float(number)))
    facts = {"videos": len(order), "drawn": int(count), "asked": int(asked[count - 1]), "of": int(asked[-1])}
    spread = float((sizes**2).mean() / sizes.mean() ** 2)
    return order[:count], facts | {"spread": spread, "width": float(widths[count - 1])}


def planned_widths(sizes: "np.ndarray") -> "np.ndarray":
    """Return the width to expect of the interval from each number of videos, from one on, in points of 100.

    Assumes that half of the answers are right, and `ASSUMED_CORRELATION` within a video. The widths do not increase.

    Args:
        sizes: Number of questions of each video.

    >>> import numpy as np
    >>> planned_widths(np.full(100, 10)).round(1)[[1, 9, 49, 99]].tolist()
    [100.0, 38.7, 11.5, 0.0]
    """
    import numpy as np
    from scipy.special import stdtrit

    count, spread = np.arange(1, len(sizes) + 1), (sizes**2).mean() / sizes.mean() ** 2
    variance = (1 + ASSUMED_CORRELATION * (spread * sizes.mean() - 1)) / 4 / (count * sizes.mean())
    quantile = stdtrit(np.maximum(1, count / spread - 1), 0.975)
    return np.minimum(100, 200 * quantile * np.sqrt(variance * (1 - count / len(sizes))))


def designs_of(benchmark: str, split: str, wanted: str = "") -> dict[Any, dict[str, Any]]:
    """Return the design by id of each question of a subset, see `draw`; empty for all questions.

    The subset is the same on every machine: it does not depend on the data's fingerprint, which changes with the paths
    and times of the videos.

    Args:
        benchmark, split: The prepared data.
        wanted: Value of `SUBSET`. Default: the environment's.

    Raises:
        LmmsEgoplanError: `wanted` is malformed, the split is not prepared, or the benchmark has no compact runs.
    """
    if not (wanted := wanted or os.environ.get(SUBSET, "")):
        return {}
    prepared = next((data for data in SPLITS if data.benchmark == benchmark and data.strata), None)
    if prepared is None:
        raise LmmsEgoplanError(f"{benchmark}: no compact runs; only egoplan, egoplan_bench2 and egointent have them")
    ids, videos, labels, progress = (prepared.load(split)[name][:] for name in prepared.strata)
    lengths = (len(value) if isinstance(value, list) else value for value in progress)
    drawn, design = draw(zip(videos, labels, lengths, strict=True), benchmark, wanted)
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
