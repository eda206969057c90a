"""Report the calibration of ranked choices, risk by coverage and conformal sets; and read a
threshold for the planner.

A probability is the softmax of the four choices' mean log-probabilities per token. Shortcut tasks,
presets, inexact runs and written letters have no row.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.report.answers import (
    EGOPLAN,
    EGOPLAN_BENCH2,
    Series,
    read_series,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report import calibration as measures
from lmms_egoplan.report.benchmark import Spec
from lmms_egoplan.report.charts import finish, marker, new_figure, shade
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, why_no_interval
from lmms_egoplan.report.two_runs import read_run
from lmms_egoplan.text import join_list

LEVELS = (0.8, 0.9, 0.95)
_TEXTS = module_yaml(__file__)
Rows = list[dict[str, Any]]
Ranked = tuple[np.ndarray, np.ndarray, list[str], dict[str, Any]]
"""Scores, right choices and videos of the questions whose choices all have finite scores; counts, with the others'."""


def ranked_answers(task: Series) -> Ranked | None:
    """Return the scores of a task's choices; None if it has no samples, or is not reported here."""
    if not task.is_ranked or task.inexact or task.shortcut or not task.answers:
        return None
    answers = np.array([*task.answers.values()], dtype=object)
    scores = np.array(
        [answer.record.logprobs or [None] * len(LETTERS) for answer in answers], dtype=float
    )
    is_usable = np.isfinite(scores).all(1) & [answer.cluster is not None for answer in answers]
    gold = np.array([LETTERS.index(str(answer.key[2])) for answer in answers[is_usable]], dtype=int)
    videos, excluded = (
        [str(x.cluster) for x in answers[is_usable]],
        [x.id for x in answers[~is_usable]],
    )
    counts = {"questions": len(gold), "videos": len(set(videos)), "excluded": len(excluded)}
    return (
        scores[is_usable],
        gold,
        videos,
        counts | {"task": task.task, "ids": join_list(excluded, 5) or None},
    )


def calibration_rows(tasks: Sequence[Series]) -> dict[str, Rows]:
    """Return the rows of the tables, by key:
    ``calibration``, ``prediction_sets`` and ``reliability``.
    """
    rows: dict[str, Rows] = {"calibration": [], "prediction_sets": [], "reliability": []}
    for task, (scores, gold, videos, counts) in (
        (task, x) for task in tasks if (x := ranked_answers(task))
    ):
        row: dict[str, Any] = {"run": task.run.name} | counts
        if row["videos"] < FEWEST_CLUSTERS:
            rows["calibration"].append(row | {"no_value": why_no_interval(row["videos"], "videos")})
            continue
        fitted: tuple[float, Any] = (
            measures.fit_temperature(scores, gold),
            measures.cross_fitted(scores, gold, videos),
        )
        for kind, (temperature, each) in {"as is": (1.0, 1.0), "fitted": fitted}.items():
            pair = measures.choices(scores, gold, each)
            cells = row | {
                "kind": kind,
                "temperature": temperature,
                "aurc": 100 * measures.area_under_risk(*pair),
            }
            cells |= measures.calibration_error(*pair, videos).cells("ece", "ece_", 100)
            cells |= measures.brier_score(scores, gold, each, videos).cells("brier", "brier_")
            rows["calibration"].append(cells)
            rows["reliability"] += [
                cells | point | {"series": task} for point in measures.curves(*pair)
            ]
        rows["prediction_sets"] += [
            row | measures.conformal_sets(scores, gold, videos, level) for level in LEVELS
        ]
    return rows


def calibration_figures(spec: Spec, rows: Rows) -> Iterator[Figure]:
    """Yield the reliability diagram and the risk-coverage curve of the tasks with a video, if there
    are any.

    Args:
        spec: The benchmark's specification.
        rows: Rows of the table ``reliability``.
    """
    groups = groupby(
        (row for row in rows if row["series"].is_main), itemgetter("run", "task", "kind")
    )
    lines = [[*points] for _, points in groups]
    for key in ("reliability", "risk_coverage") if lines else ():
        title, x, y = _TEXTS["figures"][key]
        yield Figure(
            f"{spec.name}_{key}",
            title,
            spec.note(key),
            partial(_draw, lines, x, y),
            spec.note("points"),
        )


def _draw(lines: Sequence[Rows], x: str, y: str) -> Any:
    figure, axes = new_figure(5.4, 4.4)
    if y == "right":
        axes.plot(
            [0, 100], [0, 100], color="0.15", linestyle=":", linewidth=1.2, label="calibrated"
        )
    for points in lines:
        task, kind = points[0]["series"], points[0]["kind"]
        look: dict[str, Any] = {
            "color": shade(task.look),
            "marker": marker(task.look),
            "linestyle": "-" if kind == "as is" else "--",
        }
        ends = ([point[name] for point in points] for name in (x, y))
        axes.plot(*ends, label=f"{task.short_name}, {kind}", markersize=5, **look)
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel=_TEXTS[x], ylabel=_TEXTS[y])
    finish(axes)
    return figure


def read_threshold(path: Path, model: str, adapter: Path | None, level: float) -> tuple[float, str]:
    """Compute the threshold of conformal sets from a run of the planner's model, and describe the
    calibration.

    If the run has several ranked tasks with a video, ``egoplan_val_clips`` counts, else the first
    one.

    Args:
        path: Folder or results file of the run, with samples.
        model, adapter: Name or folder of the model, and folder of its adapter.
        level: Above 0 and below 1.

    Raises:
        LmmsEgoplanError: There is no run, or several; it has another model or no ranked answers to
            questions of EgoPlan-Bench or EgoPlan-Bench2; or it has too few videos for the level.
    """
    run, _ = read_run(path, path.name, ())
    adapters = [
        text for text in run.provenance.get("arguments", "").split(",") if text.startswith("peft=")
    ]
    names = {
        "run": ", ".join([run.model, *adapters]),
        "model": f"{model}, peft={adapter}" if adapter else model,
    }
    if not f"/{names['model']}".endswith(f"/{names['run']}"):
        raise LmmsEgoplanError(_TEXTS["other_model"].format(path=path, **names))
    tasks = [
        task for of in (EGOPLAN, EGOPLAN_BENCH2) for task in read_series([run], of) if task.is_main
    ]
    usable = {task.task: ranked for task in tasks if (ranked := ranked_answers(task))}
    nothing: Ranked = (
        np.zeros((0, len(LETTERS))),
        np.zeros(0, int),
        [],
        {"task": "the run", "videos": 0},
    )
    scores, gold, videos, counts = usable.get("egoplan_val_clips") or next(
        iter(usable.values()), nothing
    )
    threshold = measures.conformal_threshold(measures.gaps_of(scores, gold), videos, level)
    if math.isinf(threshold):
        needed = math.ceil(level / (1 - level) - 1e-9)
        raise LmmsEgoplanError(
            _TEXTS["few_videos"].format(path=path, level=level, needed=needed, **counts)
        )
    return threshold, _TEXTS["calibrated"].format(level=level, **counts)
