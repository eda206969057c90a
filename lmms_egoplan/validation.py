"""Checking files that others made: what will do, how problems are told, and how far the work is."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

_SHOWN = 80
_KEYS = 10
REPEATED = "given more than once; remove all but one"

Item = TypeVar("Item")


class JsonObject(dict[str, Any]):
    """A JSON object that knows which of its keys are there more than once; the last value is kept."""

    repeated: tuple[str, ...] = ()


def read_json(text: str | bytes) -> Any:
    """As `json.loads`, for `repeated_keys`."""
    return json.loads(text, object_pairs_hook=_read_object)


def repeated_keys(value: Any) -> list[str]:
    """The keys that are more than once in one object of what `read_json` gave, each with its place.

    ``task_progress_metadata[0].start_frame`` is a key of an object in a list under a key.
    """
    found: list[str] = []
    waiting = [("", value)]
    while waiting:
        place, inside = waiting.pop()
        if isinstance(inside, JsonObject):
            found += [f"{place}.{key}".lstrip(".") for key in inside.repeated]
            waiting += [(f"{place}.{key}", member) for key, member in inside.items() if isinstance(member, dict | list)]
        elif isinstance(inside, list):
            waiting += [
                (f"{place}[{index}]", member) for index, member in enumerate(inside) if isinstance(member, dict | list)
            ]
    return sorted(found)


def repetition(value: Any) -> str | None:
    """What is wrong with a record of which a key is there more than once; None if none is."""
    keys = repeated_keys(value)
    return f"{', '.join(map(shown, keys[:_KEYS]))}: {REPEATED}" if keys else None


def is_text(value: Any) -> bool:
    """Whether a value is a text with more than blanks that can be stored: JSON files may hold halves of surrogates."""
    return isinstance(value, str) and bool(value.strip()) and not re.search("[\ud800-\udfff]", value)


def _read_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    values = JsonObject(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        values.repeated = tuple(key for key, count in counts.items() if count > 1)
    return values


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
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            rate = task.completed / task.elapsed if task.elapsed else 0.0
            return Text(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))
