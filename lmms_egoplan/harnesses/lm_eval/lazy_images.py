"""Read images on use.

lm-eval collects the images of all requests before the first one runs.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from lm_eval.api.instance import Instance
from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.memory_ahead import reserve_for
from lmms_egoplan.storage import PreparedData, split_dir

IMAGE_PLACEHOLDER = "<image>"


class LazyImages(str):
    """The images of one request, read from disk on each iteration and never stored.

    lm-eval's model classes read a request's images in one iteration over
    ``request.args[2]["visual"]``. Before that, lm-eval hashes requests (``--use_cache``), pickles
    them (``--cache_requests``) and logs them (``--log_samples``). For these purposes, this object
    is a text that describes the images.

    Args:
        description: Text that differs for different images.
        load: Reads the images, or a `Clip`. Must be picklable: a partial of a function of a module.
        is_clip: Whether the images are a `Clip`, which model classes that accept videos may show as
            a video.
    """

    load: Callable[[], Sequence[Image.Image]]
    is_clip: bool

    def __new__(
        cls, description: str, load: Callable[[], Sequence[Image.Image]], *, is_clip: bool = False
    ) -> "LazyImages":
        """Create images from a description."""
        self = super().__new__(cls, description)
        self.load = load
        self.is_clip = is_clip
        return self

    def __iter__(self) -> Iterator[Image.Image]:  # type: ignore[override]
        return iter(self.load())

    def __getitem__(self, index: Any) -> Any:
        """Return images, not characters: lm-eval's API classes slice the first ``max_images``.

        Raises:
            ValueError: The slice omits images that the question needs.
        """
        images = self.load()
        selection = images[index]
        if isinstance(index, slice) and len(selection) < len(images):
            raise ValueError(
                f"{self}: only {len(selection)} of {len(images)} images would be sent; add "
                f"--model_args max_images={len(images)}"
            )
        return selection

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(LazyImages, is_clip=self.is_clip), (str(self), self.load)


def load_images(request: Instance) -> Sequence[Image.Image]:
    """Return the images or the `Clip` of a request, and reserve memory for them."""
    visual = request.args[2]["visual"] if len(request.args) > 2 else ()
    if isinstance(visual, LazyImages):
        return visual.load()
    reserve_for(visual)
    return visual


def images_name(benchmark: str, doc: Mapping[str, Any], what: str) -> str:
    """Describe the images of a document.

    The text changes with the data and with the version of the task.

    lm-eval's ``--use_cache`` serves an earlier response if this text and the prompt are equal.

    Args:
        benchmark: Title of the benchmark.
        doc: The document from `PreparedTask`.
        what: Description of the images.
    """
    return f"{benchmark} {doc['data']}, version {doc['version'].partition(',')[0]}, {what}"


def stored_images(
    prepared: PreparedData, split: str, data: str, row: int, column: str
) -> list[Image.Image]:
    """Read only the RGB images in one row of a prepared split.

    Args:
        prepared: The prepared data.
        split: Name of the split.
        data: Fingerprint of the split when the request was built.
        row: Index of the row.
        column: Name of a column of images, or of lists of images.

    Raises:
        LmmsEgoplanError: The split was prepared again after the request was built.
    """
    value = _column(prepared, split_dir(prepared.benchmark, split), data, column)[row][column]
    images = value if isinstance(value, list) else [value]
    reserve_for(images)
    return [image.convert("RGB") for image in images]


@functools.cache
def _column(prepared: PreparedData, folder: Path, data: str, column: str) -> Dataset:
    """Return a column of the split in a folder, which depends on the root of the data."""
    split = folder.name
    if prepared.fingerprint(split) != data:
        raise LmmsEgoplanError(
            f"{prepared.folder(split)}: prepared again after the requests were built; "
            "repeat the command"
        )
    return prepared.load(split).select_columns([column])
