"""Read prepared questions and their images."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from PIL import Image

from lmms_egoplan.report import document
from lmms_egoplan.report.scores import Key

if TYPE_CHECKING:
    from datasets import Dataset


Row = TypeVar("Row")


def read_prepared(read: Callable[[], Mapping[Key, Row]]) -> tuple[Mapping[Key, Row], str | None]:
    """Read prepared rows by question. If they cannot be read, return no rows and the reason."""
    try:
        return read(), None
    # `datasets` raises several types for missing or damaged data.
    except (OSError, ValueError) as error:
        return {}, str(error)


def with_images(rows: "Dataset", column: str) -> Iterator[tuple[dict[str, Any], document.Images]]:
    """Yield each prepared row without its images, and a function that reads them."""
    images = rows.select_columns([column])
    for index, row in enumerate(rows.remove_columns([column])):
        yield row, partial(_images, images, index)


def _images(rows: "Dataset", index: int) -> list[Image.Image]:
    """Read the images of a row whose only column has one image or a list of them."""
    (images,) = rows[index].values()
    return [image.convert("RGB") for image in (images if isinstance(images, list) else [images])]
