"""EgoThink's figures: scores by capability and dimension, and by size of the model."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egothink.dimensions import Dimension
from lmms_egoplan.benchmarks.egothink.metrics import average
from lmms_egoplan.report.charts import looks_of
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egothink.answers import EgoThinkTask
from lmms_egoplan.report.plots import draw_lines, draw_points, spoken
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.tables import name_of
from lmms_egoplan.stats.means import Mean

# Published model in the figures, the best of Table 3.
_REFERENCE = "GPT-4V"
SCORE_LABEL = "score, 0 to 100"


def points_figure(
    key: str,
    title: str,
    groups: Mapping[str, Sequence[Dimension]],
    graded: Sequence[EgoThinkTask],
    models: Sequence[str],
) -> Figure:
    """Draw the runs' scores by group of dimensions.

    If a run is comparable with the published scores, `_REFERENCE` is drawn, too.

    Args:
        key: The figure's key.
        title: The figure's title.
        groups: Dimensions by the name of their group.
        graded: The runs.
        models: Names of all runs of the report.
    """
    means = {}
    for run in graded:
        means[run.name] = [run.part(dimensions).mean for dimensions in groups.values()]
    names = list(groups)
    looks = looks_of({run.name: run.run.name for run in graded}, models)
    caption = "Scores of the runs, 0 to 100, with 95 % intervals over the questions."
    reference = None
    if any(not run.objections for run in graded):
        caption += f" Dashed: {_REFERENCE} in Table 3 of the paper, graded by GPT-4."
        reference = (f"{_REFERENCE}, published", reference_scores(groups))
    draw = partial(draw_points, names, means, looks, SCORE_LABEL, 100, reference)
    return Figure(key, title, caption, draw, spoken(names, means, 1))


def reference_scores(groups: Mapping[str, Sequence[Dimension]]) -> list[float]:
    """Return the published scores of `_REFERENCE` by group of dimensions."""
    (row,) = (row for row in load_table("egothink", "table3").rows if row["model"] == _REFERENCE)
    scores = []
    for dimensions in groups.values():
        cells = [row[dimension.name] for dimension in dimensions]
        scores.append(average([cell for cell in cells if isinstance(cell, float)]))
    return scores


def sizes_figure(
    graded: Sequence[EgoThinkTask], models: Sequence[Mapping[str, Any]]
) -> Figure | None:
    """Draw the scores of families of models by size and tuning.

    Return None without a family with two of these.

    Args:
        graded: The runs.
        models: The runs' rows of `model_rows`.
    """
    lines: dict[str, dict[float, Mean]] = {}
    for run, row in zip(graded, models, strict=True):
        size = row["named_billions"] or row["total_billions"]
        if run.main.value is not None and size:
            line = f"{row['family']}, judge {name_of(run.judge)}, tuning: {row['tuned']}"
            lines.setdefault(line, {}).setdefault(float(f"{size:.2g}"), run.main)
    points_of_family: Counter[str] = Counter()
    sizes: set[float] = set()
    for line, points in lines.items():
        points_of_family[line.rpartition(",")[0]] += len(points)
        sizes.update(points)
    if max(points_of_family.values(), default=0) < 2:
        return None
    means = {}
    for line, points in lines.items():
        means[line] = [points.get(size, Mean()) for size in sorted(sizes)]
    labels = [f"{size:g}" for size in sorted(sizes)]
    title = "Score by size of the model and instruction tuning, like Fig. 8 of the paper"
    caption = (
        "With 95 % intervals over the questions. A line joins models of "
        "one family by name, with the same judge. If several runs have the same "
        "model and judge, the first counts. A name without such a word does not "
        'state the tuning, so "unknown" may be tuned, too. Sizes are rounded to '
        "two digits. Table 2 has all values, and the table of pairs the "
        "differences."
    )
    size_label = "billions of parameters, by the name of the model, else counted (not to scale)"
    # A line joins several models, so it has the colour of none.
    looks = looks_of(dict.fromkeys(means), ())
    draw = partial(draw_lines, labels, means, looks, SCORE_LABEL, size_label, 100)
    return Figure("egothink_sizes", title, caption, draw, spoken(labels, means, 1))
