"""Describe the shortcut conditions: tasks that take one kind of information from a question.

What a model can do without it is a shortcut. A task's name ends with the condition's name, and its
metadata has it as ``shortcut``. The wording and the choice of frames are this project's.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lmms_egoplan.errors import LmmsEgoplanError

if TYPE_CHECKING:
    from datasets import Dataset

Frame = TypeVar("Frame")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Shortcut:
    """A condition.

    Attributes:
        label: Name in tables and figures.
        missing: What the model does not get.
    """

    label: str
    missing: str


SHORTCUTS = {
    "blind": Shortcut(
        label="no video",
        missing="all visual evidence",
    ),
    "candidates_only": Shortcut(
        label="candidates alone",
        missing="video, question and goal",
    ),
    "without_goal": Shortcut(
        label="no goal",
        missing="the goal in the question",
    ),
    "last_frame": Shortcut(
        label="last frame only",
        missing="all frames before the last one",
    ),
    "first_frame": Shortcut(
        label="first frame only",
        missing="all frames after the first one",
    ),
    "frozen": Shortcut(
        label="last frame repeated",
        missing="motion and all earlier frames, but not the number of frames",
    ),
    "shuffled": Shortcut(
        label="frames shuffled",
        missing="the order of the frames",
    ),
    "reversed": Shortcut(
        label="frames reversed",
        missing="the direction of time",
    ),
    "same_goal_video": Shortcut(
        label="video of the same goal",
        missing="the question's own video; another one of the same goal is shown",
    ),
    "other_goal_video": Shortcut(
        label="video of another goal",
        missing="the question's own video; one of another goal is shown",
    ),
    "last_1_action": Shortcut(
        label="last action only",
        missing="the progress before the last action",
    ),
    "last_2_actions": Shortcut(
        label="last 2 actions",
        missing="the progress before the last two actions",
    ),
    "last_4_actions": Shortcut(
        label="last 4 actions",
        missing="the progress before the last four actions",
    ),
    "other_video": Shortcut(
        label="another video",
        missing="the step's own video; another one is shown",
    ),
    "other_image": Shortcut(
        label="another image",
        missing="the question's own image; another one of the same dimension is shown",
    ),
    "marked": Shortcut(
        label="numbered marks",
        missing=(
            "nothing; numbered outlines on the image, and a sentence that explains them, are added"
        ),
    ),
    "last_quarter": Shortcut(
        label="last quarter",
        missing="all frames before the last quarter",
    ),
    "without_boundary": Shortcut(
        label="without the last quarter",
        missing="the frames next to the cut, which may hint at the outcome",
    ),
    "with_history": Shortcut(
        label="more history",
        missing="nothing; the 10 seconds before the step are shown as well",
    ),
    "views_swapped": Shortcut(
        label="views swapped",
        missing="the activity's own views; those of another activity are shown",
    ),
    "leakage": Shortcut(
        label="frames after the cut",
        missing="nothing; up to 2 seconds after the cut are shown as well",
    ),
}
"""The conditions by name, in the order of tables and figures."""


def apply_condition(frames: Sequence[Frame], shortcut: str | None, seed: str) -> list[Frame]:
    """Return the frames that a condition shows.

    Args:
        frames: The frames of the whole question, in order, at least one.
        shortcut: Name in `SHORTCUTS`. Conditions that do not select or order frames change nothing.
        seed: The question's id, which determines the order of shuffled frames. It never is the
            original one if there are at least two different frames.

    >>> apply_condition([1, 2, 3], "frozen", "7"), apply_condition([1, 2, 3], "reversed", "7")
    ([3, 3, 3], [3, 2, 1])
    >>> apply_condition([1, 2, 3], "last_frame", "7")
    [3]
    """
    whole = list(frames)
    match shortcut:
        case "last_frame":
            return whole[-1:]
        case "first_frame":
            return whole[:1]
        case "frozen":
            return whole[-1:] * len(whole)
        case "reversed":
            return whole[::-1]
        case "shuffled":
            return _shuffled(whole, seed)
    return whole


def _shuffled(frames: list[Frame], seed: str) -> list[Frame]:
    """Return the frames in another order than the original one, unless all are equal."""
    if all(frame == frames[0] for frame in frames):
        return frames
    generator = random.Random(seed)
    shuffled = frames[:]
    while shuffled == frames:
        generator.shuffle(shuffled)
    return shuffled


def no_visual(_doc: Row) -> list[Any]:
    """Return no visual input: ``doc_to_visual`` of tasks that show only text."""
    return []


def with_swapped_media(
    rows: "Dataset",
    columns: Sequence[str],
    *,
    group_of: Callable[[Row], Hashable],
    unlike_of: Callable[[Row], Sequence[Hashable]],
    near_of: Callable[[Row], Hashable] = lambda _: None,
    id_of: Callable[[Row], Hashable] = lambda row: row["sample_id"],
) -> "Dataset":
    """Give each question a partner, whose media are shown instead of its own.

    A partner depends on the question's id and the set of questions, not on their order.

    Args:
        rows: The prepared questions.
        columns: The columns that the functions read and that ``partner`` contains. Other columns
            are not read.
        group_of: Returns a value that partners share.
        unlike_of: Returns values that all differ between partners, such as the video, or at least
            the id.
        near_of: Returns a value that partners share if possible.
        id_of: Returns the id, unique among the questions.

    Returns:
        The questions that have a partner, in order, with the columns ``partner`` and
        ``without_partner``, the number of skipped questions.

    Raises:
        LmmsEgoplanError: No question has a partner.

    >>> from datasets import Dataset
    >>> goals = ["tea", "tea", "salad"]
    >>> rows = Dataset.from_list([{"sample_id": i, "goal": goal} for i, goal in enumerate(goals)])
    >>> asked = with_swapped_media(
    ...     rows,
    ...     ["sample_id", "goal"],
    ...     group_of=lambda row: row["goal"],
    ...     unlike_of=lambda row: [row["sample_id"]],
    ... )
    >>> [(row["sample_id"], row["partner"]["sample_id"], row["without_partner"]) for row in asked]
    [(0, 1, 1), (1, 0, 1)]
    """
    from datasets import Dataset, Features, Value, concatenate_datasets

    questions = [
        _Question(
            row=row,
            id=str(id_of(row)),
            unlike=unlike_of(row),
            group=group_of(row),
            near=near_of(row),
        )
        for row in rows.select_columns(list(columns)).to_list()
    ]
    partners = _find_partners(questions)
    asked = [index for index, partner in enumerate(partners) if partner]
    if not asked:
        raise LmmsEgoplanError(
            f"none of the {len(questions)} questions has a partner; omit this task, or prepare more"
        )
    without_partner = len(questions) - len(asked)
    added = [{"partner": partner, "without_partner": without_partner} for partner in partners]
    features = Features(
        {
            "partner": {name: rows.features[name] for name in columns},
            "without_partner": Value("int64"),
        }
    )
    extended = concatenate_datasets([rows, Dataset.from_list(added, features)], axis=1)
    return extended.select(asked)


@dataclass(frozen=True)
class _Question:
    """A question that gets a partner; see `with_swapped_media`."""

    row: Row
    id: str
    unlike: Sequence[Hashable]
    group: Hashable
    near: Hashable


def _find_partners(questions: Sequence[_Question]) -> list[Row | None]:
    """Return the row of each question's partner; None for a question without a partner."""
    groups: dict[Hashable, list[_Question]] = defaultdict(list)
    near_groups: dict[Hashable, list[_Question]] = defaultdict(list)
    for question in sorted(questions, key=lambda question: question.id):
        groups[question.group].append(question)
        near_groups[question.group, question.near].append(question)
    partners = []
    for question in questions:
        partner = _partner_in(near_groups[question.group, question.near], question)
        if partner is None:
            partner = _partner_in(groups[question.group], question)
        partners.append(partner)
    return partners


def _partner_in(pool: Sequence[_Question], question: _Question) -> Row | None:
    """Return the first possible partner in a pool, from a random position on; None without any."""
    start = random.Random(question.id).randrange(len(pool))
    for candidate in (*pool[start:], *pool[:start]):
        pairs = zip(question.unlike, candidate.unlike, strict=False)
        if all(own != other for own, other in pairs):
            return candidate.row
    return None
