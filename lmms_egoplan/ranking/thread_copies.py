"""Give each thread its own copy of an object that threads must not share."""

import copy
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Object = TypeVar("Object")


class ThreadCopies(Generic[Object]):
    """Lend the original to the thread that created this instance, and a copy to every other thread.

    The number of copies equals the largest number of threads that use them at the same time; copies
    are reused. Processors need this, because calls change a tokenizer's settings. If the object
    cannot be copied, all threads take turns with the original.
    """

    def __init__(self, original: Object) -> None:
        self._original = original
        self._owner = threading.get_ident()
        self._idle: queue.LifoQueue[Object] = queue.LifoQueue()
        self._turn = threading.RLock()

    @contextmanager
    def borrow(self) -> Iterator[Object]:
        """Lend the object to this thread."""
        if threading.get_ident() == self._owner:
            with self._turn:
                yield self._original
            return
        try:
            lent = self._idle.get_nowait()
        except queue.Empty:
            with self._turn:
                try:
                    lent = copy.deepcopy(self._original)
                except Exception:  # a checkpoint's own processor can contain anything
                    yield self._original
                    return
        try:
            yield lent
        finally:
            self._idle.put(lent)
