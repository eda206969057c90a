"""Images that are read when they are used: lm-eval collects the images of all requests before the first one runs."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from datasets import Dataset
from lm_eval.api.instance import Instance
from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.memory_ahead import reserve_for
from lmms_egoplan.storage import PreparedData

IMAGE_PLACEHOLDER = "<image>"


class LazyImages(str):
    """The images of one request, read from disk each time they are iterated and kept nowhere.

    lm-eval's model classes take a request's images from one iteration over ``request.args[2]["visual"]``. On the way
    there it hashes requests (``--use_cache``), pickles them (``--cache_requests``) and logs them (``--log_samples``).
    For all of that this is a text that says what is shown.

    Args:
        shown: another text for other images.
        load: reads them, a `Clip` if they are one; a partial of a function of a module, so that it can be pickled.
        is_clip: they are a `Clip`, which a model class that takes videos may show as one.
    """

    load: Callable[[], Sequence[Image.Image]]
    is_clip: bool

    def __new__(cls, shown: str, load: Callable[[], Sequence[Image.Image]], *, is_clip: bool = False) -> "LazyImages":
        """Make images of a text."""
        self = super().__new__(cls, shown)
        self.load = load
        self.is_clip = is_clip
        return self

    def __iter__(self) -> Iterator[Image.Image]:  # type: ignore[override]
        return iter(self.load())

    def __getitem__(self, index: Any) -> Any:
        """Return images, not characters: lm-eval's API classes take the first ``max_images``.

        Raises:
            ValueError: a slice omits images, which the question is about.
        """
        images = self.load()
        taken = images[index]
        if isinstance(index, slice) and len(taken) < len(images):
            raise ValueError(
                f"{self}: only {len(taken)} of {len(images)} images would be sent; give --model_args "
                f"max_images={len(images)}"
            )
        return taken

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(LazyImages, is_clip=self.is_clip), (str(self), self.load)


def load_images(request: Instance) -> Sequence[Image.Image]:
    """Return the images of a request, a `Clip` where they are one. Reserve memory for them."""
    visual = request.args[2]["visual"] if len(request.args) > 2 else ()
    if isinstance(visual, LazyImages):
        return visual.load()
    reserve_for(visual)
    return visual


def images_name(benchmark: str, doc: Mapping[str, Any], what: str) -> str:
    """Name the images of a document: another text for other data and for another version of the task.

    lm-eval's ``--use_cache`` serves an earlier response where this text and the prompt are the same.

    Args:
        doc: as `PreparedTask` makes it.
    """
    return f"{benchmark} {doc['data']}, version {doc['version'].partition(',')[0]}, {what}"


def stored_images(prepared: PreparedData, split: str, data: str, row: int, column: str) -> list[Image.Image]:
    """Read the RGB images in one row of a prepared split, and nothing else.

    Args:
        data: fingerprint of the split for which the request was built.
        column: of images, or of lists of images.

    Raises:
        LmmsEgoplanError: the split has been prepared anew since then.
    """
    value = _column(prepared, split, data, column)[row][column]
    images = value if isinstance(value, list) else [value]
    reserve_for(images)
    return [image.convert("RGB") for image in images]


@functools.cache
def _column(prepared: PreparedData, split: str, data: str, column: str) -> Dataset:
    if prepared.fingerprint(split) != data:
        raise LmmsEgoplanError(
            f"{prepared.folder(split)}: prepared anew since the requests were built; run the command again"
        )
    return prepared.load(split).select_columns([column])
