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
        tqdm.write(remark, file=sys.stderr)


def close_bars() -> None:
    """End all progress bars, so that what is printed next begins on a line of its own.

    These are also the bars of other libraries. An error in a loop over `track` does not end its
    bar: the generator still waits for the next item.
    """
    for bar in list(tqdm._instances):
        bar.close()
