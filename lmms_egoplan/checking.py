"""Checking files that others made: which texts will do, how problems are told, and how far the work is."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

_SHOWN = 80

Item = TypeVar("Item")


def is_text(value: Any) -> bool:
    """Whether a value is a text with more than blanks that can be stored: JSON files may hold halves of surrogates."""
    return isinstance(value, str) and bool(value.strip()) and not re.search("[\ud800-\udfff]", value)


def shown(value: Any) -> str:
    """A value of any kind for a message: in ASCII, cut after 80 characters; ``nothing`` for None."""
    text = "nothing" if value is None else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def listing(problems: Sequence[str], limit: int) -> str:
    """Indented lines with the first `limit` problems, and how many more there are."""
    lines = [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  ... and {len(problems) - limit} more")
    return "\n".join(lines)


def track(items: Collection[Item], description: str) -> Iterator[Item]:
    """The items, with a progress bar on the standard error while they are taken."""
    with _progress() as progress:
        yield from progress.track(items, description=description)


@contextmanager
def counting(total: int, description: str) -> Iterator[Callable[[], None]]:
    """A progress bar on the standard error; gives a function to call after each of `total` items."""
    with _progress() as progress:
        yield partial(progress.advance, progress.add_task(description, total=total))


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))
