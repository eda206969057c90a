"""The suite of all benchmarks: the groups of both harnesses that run what is prepared, and leave out the rest.

A group's YAML names `MEMBERS` or `THINKING_MEMBERS`, which are found when the group is loaded, not when it is listed.
"""

from functools import cache
from typing import Any

from loguru import logger

from lmms_egoplan.benchmarks.registry import BENCHMARKS, Benchmark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.processes import is_first_process
from lmms_egoplan.storage import DataMissingError

NAME = "egocentric_planning_suite"


def __getattr__(name: str) -> dict[str, Any]:
    if name not in ("MEMBERS", "THINKING_MEMBERS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _members(is_thinking=name == "THINKING_MEMBERS")


@cache
def _absence(benchmark: Benchmark) -> str | None:
    """Return, and log once, why the suite lacks a benchmark; None if all splits that it needs are prepared."""
    splits = benchmark.load_splits()
    try:
        for split in benchmark.suite_splits or splits.official:
            splits.folder(split)
    except DataMissingError as error:
        if is_first_process():
            logger.warning(f"{NAME}: without {benchmark.title}: {error}")
        return str(error)
    except LmmsEgoplanError as error:
        logger.error(f"{NAME}: {error}")
        raise
    return None


def _members(*, is_thinking: bool) -> dict[str, Any]:
    """Return a group within the suite, of the tasks whose data are prepared.

    Raises:
        LmmsEgoplanError: no benchmark's are, or some are damaged or of another format.
    """
    prepared = [benchmark for benchmark in BENCHMARKS if benchmark.suite and _absence(benchmark) is None]
    if not prepared:
        message = f"{NAME}: no benchmark's data are prepared; lmms-egoplan data status tells how to"
        logger.error(message)  # A harness may raise another error of its own for it.
        raise LmmsEgoplanError(message)
    suites = [(is_thinking and benchmark.suite_thinking) or benchmark.suite for benchmark in prepared]
    return {"group": f"{NAME}_prepared", "task": [task for tasks in suites for task in tasks]}
