"""Responses handed to the harness one by one, as they are computed."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any


class StreamedResponses(Sequence):
    """A list of responses that are computed when they are asked for, in order.

    lmms-eval writes each response to its ``--use_cache`` store before it takes the next, so with a stream a
    killed run has lost nothing that it had finished.
    """

    def __init__(self, responses: Generator[Any, None, None], count: int) -> None:
        self._responses = responses
        self._done: list[Any] = []
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        # Not the inherited one, which takes an IndexError of the model for the end of the responses.
        for index in range(self._count):
            yield self[index]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError(index)
        while len(self._done) <= index:
            self._done.append(next(self._responses))
        if len(self._done) == self._count:
            self._responses.close()
        return self._done[index]
