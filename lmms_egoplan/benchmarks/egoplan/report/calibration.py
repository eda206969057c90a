"""Report the calibration of ranked choices, risk by coverage and conformal sets; and read a threshold for the planner.

A probability is the softmax of the four choices' mean log-probabilities per token. Shortcut tasks, presets, inexact
runs and written letters have no row.
"""

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.report.answers import EGOPLAN, EGOPLAN_BENCH2, Series, read_series
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report import calibration as measures
from lmms_egoplan.report.benchmark import Spec
from lmms_egoplan.report.charts import finish, marker, new_figure, shade
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.scores import Mean
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, bootstrap_interval, why_no_interval
from lmms_egoplan.report.two_runs import read_run
from lmms_egoplan.text import join_list

LEVELS = (0.8, 0.9, 0.95)
_TEXTS = module_yaml(__file__)
_ADAPTER = re.compile(r"(?:^|,)\s*(peft=([^,]+))")
Rows = list[dict[str, Any]]
Ranked = tuple[np.ndarray, np.ndarray, list[str], list[str]]
"""Scores, right choices and videos of the questions whose choices all have finite scores; ids of the others."""


def ranked_answers(task: Series) -> Ranked | None:
    """Return the scores of a task's choices; None if it has no samples, or is not reported here."""
    if not task.is_ranked or task.inexact or task.shortcut or not task.answers:
        return None
    answers = np.array([*task.answers.values()], dtype=object)
    scores = np.array([answer.record.logprobs or [None] * len(LETTERS) for answer in answers], dtype=float)
    is_usable = np.isfinite(scores).all(1) & [answer.cluster is not None for answer in answers]
    gold = np.array([LETTERS.index(str(answer.key[2])) for answer in answers[is_usable]], dtype=int)
    videos = [str(answer.cluster) for answer in answers[is_usable]]
    return scores[is_usable], gold, videos, [answer.id for answer in answers[~is_usable]]


def calibration_rows(tasks: Sequence[Series]) -> dict[str, Rows]:
    """Return the rows of the tables, by key: ``calibration``, ``prediction_sets`` and ``reliability``."""
    rows: dict[str, Rows] = {"calibration": [], "prediction_sets": [], "reliability": []}
    for task in tasks:
        if (ranked := ranked_answers(task)) is None:
            continue
        scores, gold, videos, excluded = ranked
        row: dict[str, Any] = {
            "run": task.run.name,
            "task": task.task,
            "questions": len(gold),
            "excluded": len(excluded),
        }
        row |= {"videos": len(set(videos)), "ids": join_list(excluded, 5) if excluded else None}
        if row["videos"] < FEWEST_CLUSTERS:
            rows["calibration"].append(row | {"no_value": why_no_interval(row["videos"], "videos")})
            continue
        fitted = measures.fit_temperature(scores, gold), measures.cross_fitted(scores, gold, videos)
        for kind, (temperature, by_question) in {"as is": (1.0, np.ones(len(gold))), "fitted": fitted}.items():
            confidence, is_right = measures.choices(scores, gold, by_question)
            plain, error = measures.calibration_error(confidence, is_right, videos)
            nll, brier = measures.losses(scores, gold, by_question)
            cells = {"kind": kind, "temperature": temperature, "plain": 100 * plain, "nll": float(nll.mean())}
            cells |= Mean(float(brier.mean()), bootstrap_interval(brier.tolist(), videos)).cells("brier", "brier_")
            cells |= measures.area_under_risk(confidence, is_right, videos).cells("aurc", "aurc_", 100)
            rows["calibration"].append(row | error.cells("ece", "ece_", 100) | cells)
            bins = measures.bins_of(confidence)
            for part, so_far in ((bins == number, bins >= number) for number in np.unique(bins)[::-1]):
                means = {"confidence": confidence[part], "right": is_right[part], "answered": so_far}
                means |= {"risk": ~is_right[so_far]}
                cells = {key: 100 * float(values.mean()) for key, values in means.items()}
                rows["reliability"].append(row | cells | {"kind": kind, "questions": int(part.sum())})
        for level in LEVELS:
            coverage, size, asks = measures.conformal_sets(scores, gold, videos, level)
            cells = {"level": 100 * level, "size": size, "asks": 100 * asks}
            rows["prediction_sets"].append(row | cells | coverage.cells("covered", scale=100))
    return rows


def calibration_figures(spec: Spec, tasks: Sequence[Series], rows: Rows) -> Iterator[Figure]:
    """Yield the reliability diagram and the risk-coverage curve of the tasks with a video, if there are any.

    Args:
        spec: The benchmark's specification.
        rows: Rows of the table ``reliability``.
    """
    mains = {(task.run.name, task.task): task for task in tasks if task.is_main}
    groups = groupby(rows, itemgetter("run", "task", "kind"))
    lines = [(mains[key[:2]], key[2], [*points]) for key, points in groups if key[:2] in mains]
    for key, (title, x, y) in _TEXTS["figures"].items() if lines else ():
        yield Figure(f"{spec.name}_{key}", title, spec.note(key), partial(_draw, lines, x, y), spec.note("points"))


def _draw(lines: Sequence[tuple[Series, str, Rows]], x: str, y: str) -> Any:
    figure, axes = new_figure(5.4, 4.4)
    if y == "right":
        axes.plot([0, 100], [0, 100], color="0.15", linestyle=":", linewidth=1.2, label="calibrated")
    for task, kind, points in lines:
        face, style = (shade(task.look), "-") if kind == "as is" else ("white", "--")
        look: dict[str, Any] = {"color": shade(task.look), "markerfacecolor": face, "linestyle": style, "markersize": 5}
        look["label"] = f"{task.short_name}, {kind} (about {points[0]['questions']:,} questions per point)"
        axes.plot([point[x] for point in points], [point[y] for point in points], marker=marker(task.look), **look)
    axes.set(xlim=(0, 100), ylim=(0, 100 if y == "right" else None), xlabel=_TEXTS[x], ylabel=_TEXTS[y])
    finish(axes)
    return figure


def read_threshold(path: Path, model: str, adapter: Path | None, level: float) -> tuple[float, str]:
    """Compute the threshold of conformal sets from a run of the planner's model, and describe the calibration.

    If the run has several ranked tasks with a video, ``egoplan_val_clips`` counts, else the first one.

    Args:
        path: Folder or results file of the run, with samples.
        model, adapter: Name or folder of the model, and folder of its adapter.
        level: Above 0 and below 1.

    Raises:
        LmmsEgoplanError: There is no run, or several; it has another model or no ranked answers to questions of
            EgoPlan-Bench or EgoPlan-Bench2; or it has too few videos for the level.
    """
    run, _ = read_run(path, path.name, ())
    tasks = [task for of in (EGOPLAN, EGOPLAN_BENCH2) for task in read_series([run], of) if task.is_main]
    usable = {task.task: ranked for task in tasks if (ranked := ranked_answers(task))}
    name = "egoplan_val_clips" if "egoplan_val_clips" in usable else next(iter(usable), "none")
    logged = _ADAPTER.search(run.provenance.get("arguments", ""))
    adapters = {text and Path(text).expanduser().resolve() for text in (adapter, logged and logged[2])}
    names = (f"/{text}" for text in (model.rstrip("/"), Path(model).resolve()))
    is_same = any(text.endswith(f"/{run.model}") for text in names) and len(adapters) == 1
    scores, gold, videos, excluded = usable.get(name, (np.zeros((0, 4)), np.zeros(0, int), [], []))
    threshold = measures.conformal_threshold(measures.gaps_of(scores, gold), videos, level) if videos else math.inf
    facts = {"path": path, "level": level, "run": run.model, "logged": logged[1] if logged else "no adapter"}
    facts |= {"model": model, "adapter": f"peft={adapter}" if adapter else "no adapter", "task": name}
    facts |= {"questions": len(gold), "excluded": len(excluded), "videos": len(set(videos))}
    if not is_same or math.isinf(threshold):
        problem = "other_model" if not is_same else "few_videos" if usable else "no_answers"
        raise LmmsEgoplanError(_TEXTS[problem].format(**facts, needed=math.ceil(level / (1 - level) - 1e-9)))
    return threshold, _TEXTS["calibrated"].format(**facts)
