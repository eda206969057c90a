"""Define the suite of each harness: a group that runs all prepared benchmarks.

It skips the others.

A group's YAML refers to `MEMBERS` or `THINKING_MEMBERS`, which are computed when the group is
loaded, not listed.
"""

from functools import cache
from typing import Any

from loguru import logger

from lmms_egoplan.benchmarks.base import BENCHMARKS, Benchmark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.processes import is_first_process

NAME = "egocentric_planning_suite"


def __getattr__(name: str) -> dict[str, Any]:
    if name not in ("MEMBERS", "THINKING_MEMBERS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _members(is_thinking=name == "THINKING_MEMBERS")


def _why_unprepared(benchmark: Benchmark) -> str | None:
    """Return, and log once, why the suite skips a benchmark.

    None if all required splits are prepared.
    """
    try:
        reason = benchmark.why_unprepared()
    except LmmsEgoplanError as error:
        logger.error(f"{NAME}: {error}")
        raise
    if reason and is_first_process():
        _warn_once(f"{NAME}: skipping {benchmark.title}: {reason}")
    return reason


@cache
def _warn_once(message: str) -> None:
    """Log a warning unless it was logged before."""
    logger.warning(message)


def _members(*, is_thinking: bool) -> dict[str, Any]:
    """Return a group within the suite, with all tasks whose data are prepared.

    Raises:
        LmmsEgoplanError: No data are prepared, or some are damaged or have another format.
    """
    prepared = [benchmark for benchmark in BENCHMARKS if _why_unprepared(benchmark) is None]
    if not prepared:
        message = (
            f"{NAME}: no benchmark's data are prepared; see lmms-egoplan data status for how "
            "to prepare them"
        )
        logger.error(message)  # A harness may replace the exception with its own.
        raise LmmsEgoplanError(message)
    suites = [
        (is_thinking and benchmark.suite_thinking) or benchmark.suite for benchmark in prepared
    ]
    return {"group": f"{NAME}_prepared", "task": [task for tasks in suites for task in tasks]}
