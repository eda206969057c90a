"""Count counterfactual activities by type, as in Fig. 4 of the paper."""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.actplan.instances import ACTIVITY_TYPES, activity_type, parse_id
from lmms_egoplan.benchmarks.actplan.prepare import SPLIT
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.files import write_whole
from lmms_egoplan.report.charts import draw_bars, spoken
from lmms_egoplan.report.document import Figure, write_figure
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.storage import split_dir
from lmms_egoplan.text import csv_text


def write_prepared_figure_4(bddl: Path | None) -> None:
    """Write Fig. 4 of the prepared data next to them, and of the problems in `bddl`."""
    write_figure_4(split_dir("actplan", SPLIT), _counterfactual_activities(bddl))


def _counterfactual_activities(bddl: Path | None) -> dict[str, set[str]]:
    """Return the counterfactual activities of Fig. 4: the prepared ones, and those in `bddl`."""
    prepared: set[str] = set()
    for text in ACTPLAN.load(SPLIT)["id"]:
        instance = parse_id(text)
        if instance is not None and instance.setting == "counterfactual":
            prepared.add(instance.activity)
    activities = {"prepared, category not published": prepared}
    described: set[str] = set()
    descriptions = bddl.resolve().rglob("task_description_1.txt") if bddl else ()
    for path in descriptions:
        # In the authors' repository, descriptions are next to the problems; in the full release,
        # in a folder "1".
        folder = path.parent
        if folder.name == "1":
            folder = folder.parent
        described.add(folder.name)
    if described:
        activities["in --bddl, category not published"] = described
    return activities


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
    means: dict[str, list[Mean]] = {}
    for category, names in activities.items():
        counter = Counter(map(activity_type, names))
        numbers = [counter[name] for name in types]
        rows.append([category, *numbers])
        means[category] = [Mean(number) for number in numbers]
    write_whole(folder / "figure_4.csv", csv_text(rows))
    draw = partial(draw_bars, types, means, "counterfactual activities", 1)
    figure = Figure("figure_4", "Counterfactual activities", "", draw, spoken(types, means, 0))
    write_figure(folder, figure)
