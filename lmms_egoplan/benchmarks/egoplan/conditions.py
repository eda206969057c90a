"""Select the questions of EgoPlan-Bench's and EgoPlan-Bench2's shortcut tasks, with partners.

`benchmarks.conditions.SHORTCUTS` describes the conditions; `frames`, `frame_settings` and `visuals`
select what they show. Which partner a question has is this project's choice.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.conditions import Row, with_swapped_media
from lmms_egoplan.benchmarks.egoplan.prompts import without_goal

if TYPE_CHECKING:
    from datasets import Dataset

# Columns with the right choice or the text of a question. A partner does not need them.
_ASKED = (
    "question",
    "choices",
    "golden_choice_idx",
    "answer",
    "split_size",
    "question_set",
    "origin",
)


def goal_of(row: Row) -> str:
    """Return a question's goal as lower-case words.

    >>> goal_of({"task_goal": "Cut, and peel  the onion."})
    'cut and peel the onion'
    """
    return " ".join(re.findall(r"\w+", row["task_goal"].casefold()))


SAME_GOAL_VIDEO = "same_goal_video"
OTHER_GOAL_VIDEO = "other_goal_video"
PARTNERS = (SAME_GOAL_VIDEO, OTHER_GOAL_VIDEO)
"""The conditions that show the video of another question."""


def asked_questions(rows: "Dataset", shortcut: str | None) -> "Dataset":
    """Return the questions that a condition asks.

    Args:
        rows: The prepared questions.
        shortcut: Name in `SHORTCUTS`; None for the benchmark's own task.

    Returns:
        The rows. For a condition in `PARTNERS`, the result of `with_swapped_media`: another video
        that, if possible, has the same source and domain.

    Raises:
        LmmsEgoplanError: No question has a partner, or the goal cannot be removed from a question
            (`without_goal`).
    """
    if shortcut == "without_goal":
        for row in rows.select_columns(["sample_id", "task_goal", "question"]):
            without_goal(row)
    if shortcut == SAME_GOAL_VIDEO:
        return _with_partners(rows, goal_of, lambda row: [row["video_id"]])
    if shortcut == OTHER_GOAL_VIDEO:
        return _with_partners(rows, lambda _: "", lambda row: [row["video_id"], goal_of(row)])
    return rows


ask_without_goal = partial(asked_questions, shortcut="without_goal")
ask_same_goal_video = partial(asked_questions, shortcut=SAME_GOAL_VIDEO)
ask_other_goal_video = partial(asked_questions, shortcut=OTHER_GOAL_VIDEO)


def _with_partners(
    rows: "Dataset",
    group_of: Callable[[Row], Hashable],
    unlike_of: Callable[[Row], Sequence[Hashable]],
) -> "Dataset":
    """Give each question a partner of the same source and domain, if possible.

    Args:
        rows: The prepared questions.
        group_of: As for `with_swapped_media`.
        unlike_of: As for `with_swapped_media`.
    """
    columns = [name for name in rows.column_names if name not in _ASKED]
    near_of = itemgetter("video_source", *{"domain"} & {*columns})
    swapped = with_swapped_media(
        rows, columns, group_of=group_of, unlike_of=unlike_of, near_of=near_of
    )
    return swapped.flatten_indices(keep_in_memory=True)
