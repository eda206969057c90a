"""What readers of media say of their memory, and the most that reading ahead of a model has taken."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

RESERVE: ContextVar[Callable[[int], None]] = ContextVar("RESERVE", default=lambda num_bytes: None)
"""Call it with the bytes of the pixels that follow, before they are decoded. It may stop a thread that reads ahead."""


@dataclass
class _Peak:
    """The most memory of reading ahead in this process.

    Attributes:
        num_bytes: The peak up to now.
    """

    num_bytes: int = 0


PEAK = _Peak()
