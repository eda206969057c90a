"""Show the views of another activity: ActPlan-1K's shortcut condition, chosen by this project."""

from operator import itemgetter
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.conditions import with_swapped_media

if TYPE_CHECKING:
    from datasets import Dataset


def views_swapped(docs: "Dataset") -> "Dataset":
    """Give each instance a partner of another activity, see `with_swapped_media`.

    The choice is this project's.

    ``partner`` has ``row``, the position in the prepared split.
    """
    if "row" not in docs.column_names:
        docs = docs.add_column("row", list(range(len(docs))))
    columns = [
        name for name in ("id", "activity", "row", "num_images") if name in docs.column_names
    ]
    unlike_of = itemgetter("id", "activity")
    return with_swapped_media(
        docs, columns, group_of=lambda _: None, unlike_of=unlike_of, id_of=itemgetter("id")
    )
