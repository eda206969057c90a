"""One object, used by several threads that must not share it."""

import copy
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Object = TypeVar("Object")


class ThreadCopies(Generic[Object]):
    """Lends the object itself to the thread that made this, and to each other one a copy of its own.

    As many copies are made as threads use them at once, and they are kept. Processors need this: a tokenizer's settings
    change from one call to the next. Where it cannot be copied, all threads take turns with the object itself.
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
                except Exception:  # whatever a processor that comes with a checkpoint holds
                    yield self._original
                    return
        try:
            yield lent
        finally:
            self._idle.put(lent)
