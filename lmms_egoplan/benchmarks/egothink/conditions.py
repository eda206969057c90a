"""Show a question's image, or another image of the same dimension: a condition of this project.

The other conditions are in the tasks' functions (no image) and in `marks` (numbered marks).
"""

from collections.abc import Mapping
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.conditions import with_swapped_media
from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.splits import EGOTHINK

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL.Image import Image


def other_image(rows: "Dataset") -> "Dataset":
    """Give each question of a dimension a partner with another image, see `with_swapped_media`.

    ``partner`` has ``row``, the position in the prepared dimension. Equal image files count as the
    same image.

    Args:
        rows: All prepared questions of a dimension, with or without their images.
    """
    from datasets import Image

    stored = EGOTHINK.load(dimension_of(rows[0]["id"])).cast_column("image", Image(decode=False))
    digests = [sha256(image["bytes"]).hexdigest() for image in stored["image"]]
    if "row" not in rows.column_names:
        rows = rows.add_column("row", list(range(len(rows))))
    return with_swapped_media(
        rows.add_column("image_digest", digests),
        ["id", "row", "image_digest"],
        group_of=lambda _: None,
        unlike_of=itemgetter("id", "image_digest"),
        id_of=itemgetter("id"),
    )


def shown_image(doc: Mapping[str, Any]) -> "Image":
    """Return the image that is shown with a question: the partner's, if it has one."""
    if "partner" not in doc:
        return doc["image"]
    return EGOTHINK.load(dimension_of(doc["id"]))[doc["partner"]["row"]]["image"]
