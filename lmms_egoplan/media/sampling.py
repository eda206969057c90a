"""Sample frames for several benchmarks: settings, even spacing, and reading in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError

_BATCH = 32

Doc = Mapping[str, Any]
VisualInput = list[Image.Image | list[Image.Image] | str]


def count_setting(settings: Mapping[str, Any], name: str) -> int:
    """Return the setting `name`, a count of at least 1 that ``settings["media"]`` requires.

    Raises:
        LmmsEgoplanError: The setting is missing or not a positive integer.
    """
    value = settings.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise LmmsEgoplanError(
            f"visual settings: media {settings['media']} needs {name}, an integer of at least 1, "
            f"got {value!r}; set it (a model's settings replace the whole default block)"
        )
    return value


def evenly_spaced(first: int, last: int, count: int) -> list[int]:
    """Return `count` evenly spaced numbers from `first` to `last`, rounded half up.

    `count` is at least 1; 1 gives `last`.

    >>> evenly_spaced(0, 9, 4)
    [0, 3, 6, 9]
    """
    gaps = count - 1
    if gaps == 0:
        return [last]
    return [first + (2 * i * (last - first) + gaps) // (2 * gaps) for i in range(count)]


def read_in_batches(
    read: Callable[[Sequence[int]], list[Image.Image]], numbers: Sequence[int]
) -> Iterator[Image.Image]:
    """Yield the frames with these numbers in order, reading at most 32 at a time."""
    for start in range(0, len(numbers), _BATCH):
        yield from read(numbers[start : start + _BATCH])
