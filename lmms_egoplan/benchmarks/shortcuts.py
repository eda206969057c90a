"""Describe the shortcut conditions: tasks that take one kind of information from a question.

``shortcuts.yaml`` lists them. A task's name ends with the condition's name, and its metadata has it
as ``shortcut``.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from typing import TYPE_CHECKING, Any, TypeVar

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import module_yaml

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


SHORTCUTS = {name: Shortcut(**entry) for name, entry in module_yaml(__file__).items()}
"""The conditions by name, in the order of tables and figures."""


def altered(frames: Sequence[Frame], shortcut: str | None, seed: str) -> list[Frame]:
    """Return the frames that a condition shows.

    Args:
        frames: The frames of the whole question, in order, at least one.
        shortcut: Name in `SHORTCUTS`. Conditions that do not select or order frames change nothing.
        seed: The question's id, which determines the order of shuffled frames. It never is the
            original one if there are at least two different frames.

    >>> altered([1, 2, 3], "frozen", "7"), altered([1, 2, 3], "reversed", "7"), altered([1, 2, 3], "last_frame", "7")
    ([3, 3, 3], [3, 2, 1], [3])
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
        case "shuffled" if any(frame != whole[0] for frame in whole):
            generator, order = random.Random(seed), whole[:]
            while order == whole:
                generator.shuffle(order)
            return order
    return whole


def with_partners(
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
    >>> rows = Dataset.from_list([{"sample_id": i, "goal": goal} for i, goal in enumerate(["tea", "tea", "salad"])])
    >>> asked = with_partners(
    ...     rows, ["sample_id", "goal"], group_of=lambda row: row["goal"], unlike_of=lambda row: [row["sample_id"]]
    ... )
    >>> [(row["sample_id"], row["partner"]["sample_id"], row["without_partner"]) for row in asked]
    [(0, 1, 1), (1, 0, 1)]
    """
    from datasets import Dataset, Features, Value, concatenate_datasets

    known = rows.select_columns(list(columns)).to_list()
    ids, unlike = [str(id_of(row)) for row in known], [unlike_of(row) for row in known]
    keys = [((group_of(row), near_of(row)), (group_of(row),)) for row in known]
    pools: dict[Hashable, list[int]] = defaultdict(list)
    for index in sorted(range(len(known)), key=ids.__getitem__):
        for key in keys[index]:
            pools[key].append(index)

    def partner_of(index: int) -> Row | None:
        for pool in (pools[key] for key in keys[index]):
            start = random.Random(ids[index]).randrange(len(pool))
            for other in (*pool[start:], *pool[:start]):
                if not any(map(eq, unlike[index], unlike[other])):
                    return known[other]
        return None

    partners = [partner_of(index) for index in range(len(known))]
    if not (asked := [index for index, partner in enumerate(partners) if partner]):
        raise LmmsEgoplanError(
            f"none of the {len(known)} questions has a partner; omit this task, or prepare more"
        )
    features = {
        "partner": {name: rows.features[name] for name in columns},
        "without_partner": Value("int64"),
    }
    added = [
        {"partner": partner, "without_partner": len(known) - len(asked)} for partner in partners
    ]
    return concatenate_datasets(
        [rows, Dataset.from_list(added, Features(features))], axis=1
    ).select(asked)
