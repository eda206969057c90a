"""Images that are read when they are used: lm-eval holds the images of all requests before the first one runs."""

from collections.abc import Callable, Iterator
from typing import Any

from PIL import Image

IMAGE_PLACEHOLDER = "<image>"


class LazyImages(str):
    """The images of one request, read from disk each time they are iterated and kept nowhere.

    lm-eval's model classes take the images of a request from one iteration over ``request.args[2]["visual"]``. On the way
    there it hashes requests (``--use_cache``), pickles them (``--cache_requests``) and logs them (``--log_samples``). For
    all of that this is a text that says what is shown.

    Args:
        shown: another text for other images.
        load: reads them; a partial of a function of a module, so that it can be pickled.
    """

    __slots__ = ("_load",)

    def __new__(cls, shown: str, load: Callable[[], list[Image.Image]]) -> "LazyImages":
        self = super().__new__(cls, shown)
        self._load = load
        return self

    def __iter__(self) -> Iterator[Image.Image]:  # type: ignore[override]
        return iter(self._load())

    def __getitem__(self, index: Any) -> Any:
        """Images, not characters: API models take the first so many."""
        return self._load()[index]

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyImages, (str(self), self._load)
