"""Select the questions of EgoPlan-Bench's and EgoPlan-Bench2's shortcut tasks, with partners.

`benchmarks.conditions.SHORTCUTS` describes the conditions; `frames`, `frame_settings` and `visuals`
select what they show. Which partner a question has is this project's choice.
"""

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

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


# Arguments of `with_swapped_media` by condition.
PARTNERS: dict[str, dict[str, Any]] = {
    "same_goal_video": {"group_of": goal_of, "unlike_of": lambda row: [row["video_id"]]},
    "other_goal_video": {
        "group_of": lambda _: "",
        "unlike_of": lambda row: [row["video_id"], goal_of(row)],
    },
}


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
    if shortcut not in PARTNERS:
        return rows
    columns = [name for name in rows.column_names if name not in _ASKED]
    near_of = itemgetter("video_source", *{"domain"} & {*columns})
    return with_swapped_media(rows, columns, near_of=near_of, **PARTNERS[shortcut]).flatten_indices(
        keep_in_memory=True
    )
