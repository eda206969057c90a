"""Draw the questions of a compact run: a random sample.

It is the same for every model and order of the rows.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.errors import LmmsEgoplanError

if TYPE_CHECKING:
    import numpy as np

SUBSET = "LMMS_EGOPLAN_SUBSET"
"""Environment variable with the size of the subset.

It is the largest number of questions, or ``width=`` and the width of an interval in points.
"""

COLUMN = "subset"
"""Column of prepared rows: the design of a question in the subset, None for all other questions."""


def draw(questions: Iterable[Any], seed: str, wanted: str) -> tuple[list[Any], dict[str, Any]]:
    """Draw questions: the first ones in the order of a hash of seed and id.

    A question's position depends on nothing else. So each question has the same probability,
    whatever the number of questions of its video, and the mean over the subset is an unbiased
    estimate of the mean over all questions. A larger subset contains each smaller one. If questions
    are removed, the others of the subset stay in it, and the next ones in the order replace the
    missing ones.

    Args:
        questions: Id of each question, in any order.
        seed: Any text, such as the benchmark's name.
        wanted: Value of `SUBSET`. The subset has at most this number of questions.

    Returns:
        The drawn ids, and the design: ``asked``, the number of drawn questions; ``of``, that of all
        questions; and ``width``, the width of the interval to expect, in points.

    Raises:
        LmmsEgoplanError: `wanted` is malformed, or there are no questions.

    >>> ids, design = draw(range(120), "seed", "50")
    >>> design["asked"], design["of"], {*ids} < {*draw(range(120), "seed", "90")[0]}
    (50, 120, True)
    """
    order = sorted(questions, key=lambda id_: (_hash(seed, id_), str(id_)))
    size = _read_size(wanted)
    if not order:
        raise LmmsEgoplanError(
            f"{SUBSET}={wanted}: the prepared data of {seed} have no questions; prepare them again"
        )
    widths = planned_widths(len(order))
    if isinstance(size, _Width):
        # Widths do not increase, and the last one is 0: take the first one that is small enough.
        num_too_wide = int(sum(widths > size.points))
        count = num_too_wide + 1
    else:
        count = min(size, len(order))
    return order[:count], {"asked": count, "of": len(order), "width": float(widths[count - 1])}


def _hash(seed: str, question: Any) -> bytes:
    """Return the hash that determines the position of a question."""
    return sha256(f"{seed} {question}".encode()).digest()


@dataclass(frozen=True)
class _Width:
    """The width of an interval, in points of 100."""

    points: float


def _read_size(wanted: str) -> _Width | int:
    """Read a value of `SUBSET`: a number of questions, or a width.

    Raises:
        LmmsEgoplanError: `wanted` is malformed.
    """
    name, _, number = wanted.rpartition("=")
    if name == "width" and number.replace(".", "", 1).isdecimal() and float(number):
        return _Width(float(number))
    if name == "" and number.isdecimal() and float(number):
        return int(number)
    raise LmmsEgoplanError(
        f"{SUBSET}={wanted}: must be a number of questions, or width=POINTS; correct it"
    )


def planned_widths(count: int) -> "np.ndarray":
    """Return the width to expect of the interval from each number of questions, from one on.

    Widths are in points of 100. Assumes that half of the answers are right. The widths do not
    increase. See `stats.intervals.wilson_interval`.

    Args:
        count: Number of all questions.

    >>> planned_widths(1000).round(1)[[0, 99, 299, 999]].tolist()
    [100.0, 18.8, 9.5, 0.0]
    """
    import numpy as np  # The plugin of lmms-eval imports this module at startup.
    from scipy.special import stdtrit

    asked = np.arange(2, count + 1)
    freedom = asked - 1
    loss = stdtrit(freedom, 0.975) ** 2 * (1 - asked / count) * asked**2 / freedom**3
    return np.array([0.0 if count == 1 else 100.0, *100 * np.sqrt(loss / (1 + loss))])


def designs_of(benchmark: str, split: str, wanted: str = "") -> dict[Any, dict[str, Any]]:
    """Return the design by id of each question of a subset, see `draw`; empty for all questions.

    The subset is the same on every machine: it does not depend on the data's fingerprint, which
    changes with the paths and times of the videos.

    Args:
        benchmark, split: The prepared data.
        wanted: Value of `SUBSET`. Default: the environment's.

    Raises:
        LmmsEgoplanError: `wanted` is malformed, the split is not prepared, or the benchmark has no
            compact runs.
    """
    wanted = wanted or os.environ.get(SUBSET, "")
    if not wanted:
        return {}
    for prepared in SPLITS:
        if prepared.benchmark == benchmark and prepared.question_id:
            break
    else:
        raise LmmsEgoplanError(
            f"{benchmark}: no compact runs; only egoplan, egoplan_bench2 and egointent have them"
        )
    drawn, design = draw(prepared.load(split)[prepared.question_id][:], benchmark, wanted)
    return dict.fromkeys(drawn, design) if design["asked"] < design["of"] else {}


def mark(rows: Any, benchmark: str, split: str, *, only: bool = False, wanted: str = "") -> Any:
    """Add `COLUMN` to the rows of a prepared split if only a subset is asked.

    Args:
        rows: A dataset with all or some rows of the split.
        benchmark, split: The prepared data.
        only: True to return only the rows of the subset.
        wanted: Value of `SUBSET`. Default: the environment's.

    Raises:
        LmmsEgoplanError: See `designs_of`.
    """
    designs = designs_of(benchmark, split, wanted)
    if not designs or COLUMN in rows.column_names:
        return rows
    id_column = "sample_id" if "sample_id" in rows.column_names else "step_id"
    values = [designs.get(id_) for id_ in rows[id_column]]
    asked = [index for index, value in enumerate(values) if value or not only]
    return rows.add_column(COLUMN, values).select(asked)
