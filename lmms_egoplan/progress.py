"""Report progress on standard error, in the first process only."""

import sys
from collections.abc import Collection, Iterator
from typing import TypeVar

from tqdm import tqdm

from lmms_egoplan.processes import is_first_process

Item = TypeVar("Item")


def track(items: Collection[Item], description: str) -> Iterator[Item]:
    """Yield the items and show a progress bar."""
    yield from tqdm(items, desc=description, disable=not (items and is_first_process()))


def progress_bar(total: int, description: str, unit: str = "it") -> tqdm:
    """Return a progress bar, which is a context manager.

    Call its `update` after each of `total` items.
    """
    return tqdm(
        total=total, desc=description, unit=unit, leave=None, disable=not is_first_process()
    )


def notify(remark: str) -> None:
    """Print a remark for the user."""
    if is_first_process():
        print(remark, file=sys.stderr, flush=True)
