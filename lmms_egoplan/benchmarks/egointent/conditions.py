"""Select the steps that EgoIntent's shortcut conditions ask, and what they show a model.

The release names temporal order (``shuffled``, ``reversed``), motion (``frozen``), context length
(``last_quarter``, ``with_history``), visual evidence (``blind``, ``first_frame``, ``last_frame``,
``other_video``), outcome (``without_boundary``) and future leakage (the split ``leakage``). Frames
and partners are this project's choice; `frames` selects the frames.
"""

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.conditions import Row, with_swapped_media
from lmms_egoplan.errors import LmmsEgoplanError

if TYPE_CHECKING:
    from datasets import Dataset

_MEDIA = ("step_id", "video_id", "video_path", "start_sec", "end_sec", "num_frames")
# What a step's video is about, from the most specific name; a step may lack all but the last.
_ACTIVITY = ("category", "goal", "event", "scenario")


def under(rows: "Dataset", shortcut: str) -> "Dataset":
    """Return the steps that a condition asks, with the column ``shortcut``, which `frames` reads.

    ``other_video`` adds the columns of `with_swapped_media`. The partner is a step of another video
    with another activity. ``without_boundary`` skips steps of one frame, and counts them in
    ``without_partner``.

    Args:
        rows: The prepared steps.
        shortcut: Name in `SHORTCUTS`.

    Raises:
        LmmsEgoplanError: No step can be asked.
    """
    if shortcut == "other_video":
        columns = [name for name in (*_MEDIA, *_ACTIVITY) if name in rows.column_names]
        rows = with_swapped_media(
            rows,
            columns,
            group_of=lambda _: None,
            unlike_of=_differing,
            id_of=itemgetter("step_id"),
        )
    if shortcut == "without_boundary":
        longer = [index for index, frames in enumerate(rows["num_frames"]) if frames > 1]
        if not longer:
            raise LmmsEgoplanError(
                "egointent_without_boundary: every step has only one frame; omit this task"
            )
        rows = rows.select(longer).add_column(
            "without_partner", [len(rows) - len(longer)] * len(longer)
        )
    return rows.add_column("shortcut", [shortcut] * len(rows))


under_blind = partial(under, shortcut="blind")
under_last_frame = partial(under, shortcut="last_frame")
under_first_frame = partial(under, shortcut="first_frame")
under_frozen = partial(under, shortcut="frozen")
under_shuffled = partial(under, shortcut="shuffled")
under_reversed = partial(under, shortcut="reversed")
under_other_video = partial(under, shortcut="other_video")
under_last_quarter = partial(under, shortcut="last_quarter")
under_without_boundary = partial(under, shortcut="without_boundary")
under_with_history = partial(under, shortcut="with_history")


def _differing(row: Row) -> list[str]:
    """Return the video and the activity of a step."""
    names = (row.get(name) for name in _ACTIVITY)
    return [row["video_id"], next(name.strip().lower() for name in names if name)]
