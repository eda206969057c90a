"""Count counterfactual activities by type, as in Fig. 4 of the paper."""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.actplan.instances import ACTIVITY_TYPES, activity_type, parse_id
from lmms_egoplan.benchmarks.actplan.prepare import SPLIT
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.report.charts import looks_of
from lmms_egoplan.report.document import Figure, write_figure
from lmms_egoplan.report.plots import draw_bars, spoken
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.storage import split_dir
from lmms_egoplan.text import csv_text


def write_prepared_figure_4(described: Collection[str] | None) -> None:
    """Write Fig. 4 of the prepared data next to them.

    Args:
        described: Activities of `described_activities`, which get a row of their own.
    """
    prepared: set[str] = set()
    for text in ACTPLAN.load(SPLIT)["id"]:
        instance = parse_id(text)
        if instance is not None and instance.setting == "counterfactual":
            prepared.add(instance.activity)
    activities: dict[str, Collection[str]] = {"prepared, category not published": prepared}
    if described is not None:
        activities["in --bddl, category not published"] = described
    write_figure_4(split_dir("actplan", SPLIT), activities)


def described_activities(folder: Path) -> set[str]:
    """Return the counterfactual activities that a folder describes.

    Raises:
        LmmsEgoplanError: The folder describes none.
    """
    described: set[str] = set()
    for path in folder.resolve().rglob("task_description_1.txt"):
        # In the authors' repository, descriptions are next to the problems; in the full release,
        # in a folder "1".
        activity = path.parent
        if activity.name == "1":
            activity = activity.parent
        described.add(activity.name)
    if not described:
        raise LmmsEgoplanError(
            f"{folder}: describes no counterfactual activity; expected "
            "<activity>/task_description_1.txt, as in bddl/activity_definitions of ActPlan-1K's "
            "repository"
        )
    return described


def write_figure_4(folder: Path, activities: Mapping[str, Collection[str]]) -> None:
    """Write the numbers of counterfactual activities by type (Fig. 4).

    The files are ``figure_4.csv``, ``.png`` and ``.svg``.

    Args:
        folder: Output folder.
        activities: Names of activities by category of sec. 3.4.

    Raises:
        OSError: The folder cannot be written.
    """
    types = ACTIVITY_TYPES
    rows: list[list[Any]] = [["category", *types]]
    counts: dict[str, list[int]] = {}
    for category, names in activities.items():
        counter = Counter(map(activity_type, names))
        numbers = [counter[name] for name in types]
        rows.append([category, *numbers])
        counts[category] = numbers
    write_whole(folder / "figure_4.csv", csv_text(rows))
    looks = looks_of({category: category for category in counts}, [])
    draw = partial(draw_bars, types, counts, looks, "counterfactual activities")
    means = {category: [Mean(number) for number in counts[category]] for category in counts}
    figure = Figure("figure_4", "Counterfactual activities", "", draw, spoken(types, means, 0))
    write_figure(folder, figure)
