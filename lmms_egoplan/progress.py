"""Progress bars on the standard error."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")


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
    from rich import progress as bars
    from rich.console import Console
    from rich.text import Text

    class Rate(bars.ProgressColumn):
        def render(self, task: bars.Task) -> Text:
            rate = task.completed / task.elapsed if task.elapsed else 0.0
            return Text(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")

    description = bars.TextColumn("{task.description}")
    columns = (description, bars.BarColumn(), bars.MofNCompleteColumn(), Rate(), bars.TimeElapsedColumn())
    return bars.Progress(*columns, console=Console(stderr=True))
