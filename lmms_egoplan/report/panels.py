"""Make the table of panels: several judges of the same answers."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from krippendorff import alpha

from lmms_egoplan.judging.panel import combine
from lmms_egoplan.report.scores import Answer, Key, ScoredTask
from lmms_egoplan.report.tables import Column, Table, interval_columns, table_of_runs
from lmms_egoplan.stats.agreement import MIN_ITEMS
from lmms_egoplan.stats.means import Mean

Part = tuple[Key, str]
"""A text that judges rate: the key of the answer, and the text's name in `Answer.texts`."""


@dataclass(frozen=True)
class Panel:
    """Runs of one model with the same answers and conditions, each with another judge.

    runs: the runs' tasks, in the order of their judges' names.
    parts: the texts that all judges rated.
    ratings: ratings of these texts, shape (texts, judges).
    """

    runs: tuple[Any, ...]
    parts: list[Part]
    ratings: np.ndarray


def panels_of(tasks: Iterable[ScoredTask]) -> list[Panel]:
    """Find the panels among runs. The demo judge is in no panel.

    Args:
        tasks: the runs' tasks. If several runs with the same answers have the same judge, only the
            first counts.
    """
    tasks_by_judge: dict[Any, dict[str, ScoredTask]] = {}
    for task in tasks:
        if task.judge and task.answers and not task.is_by_demo:
            group = tasks_by_judge.setdefault(_identity(task), {})
            group.setdefault(task.judge, task)
    panels = []
    for group in tasks_by_judge.values():
        runs = tuple(group[judge] for judge in sorted(group))
        ratings = _ratings_by_all(runs)
        if len(runs) > 1 and ratings:
            panels.append(Panel(runs, list(ratings), np.array(list(ratings.values()), dtype=float)))
    return panels


def _identity(task: ScoredTask) -> tuple[Any, ...]:
    """Return what the runs of a panel have in common: model, conditions and rated texts."""
    answers = task.answers or {}
    texts = []
    for answer in answers.values():
        for name, (text, _) in answer.texts.items():
            texts.append((answer.key, name, text))
    conditions = task.conditions | {"judges": "", "versions": task.task_run.version}
    # Answers without a run have no version of the task, and no model.
    model = task.run.base_model if task.task_run.version else ""
    return model, frozenset(conditions.items()), frozenset(texts)


def _ratings_by_all(runs: Sequence[ScoredTask]) -> dict[Part, list[float]]:
    """Return the ratings of the texts that the judges of all runs rated, in the runs' order."""
    rated = {}
    for answer in (runs[0].answers or {}).values():
        for name in answer.texts:
            ratings = []
            for run in runs:
                _, rating = (run.answers or {})[answer.key].texts[name]
                if rating is not None:
                    ratings.append(rating)
            if len(ratings) == len(runs):
                rated[answer.key, name] = ratings
    return rated


def panel_row(panel: Panel, mean_over: Callable[..., Mean]) -> dict[str, Any]:
    """Return a panel's combined scores, spread and agreement.

    Args:
        panel: the panel.
        mean_over: see `BenchmarkReport.mean_over`.
    """
    answers = panel.runs[0].answers.values()
    num_texts = sum(len(answer.texts) for answer in answers)
    row = {
        "name": panel.runs[0].name,
        "judges": "; ".join(run.judge for run in panel.runs),
        "answers": len(panel.parts),
        "left_out": num_texts - len(panel.parts),
    }
    have_scores = all(run.main.value is not None for run in panel.runs)
    combined = combine(panel.ratings)
    for name in ("majority", "median", "mean"):
        ratings = _known_ratings(panel.parts, combined[name])
        mean = Mean()
        if have_scores:
            mean = mean_over([_with_ratings(answer, ratings) for answer in answers])
        row |= mean.cells(name)
        row[f"{name}_of"] = len(ratings)
    if len(panel.parts) >= MIN_ITEMS and np.ptp(panel.ratings):
        row["alpha"] = float(alpha(panel.ratings.T, level_of_measurement="interval"))
    row["spread"] = float(combined["spread"].mean())
    return row


def _known_ratings(parts: Sequence[Part], ratings: np.ndarray) -> dict[Part, float]:
    """Return the ratings that are not NaN, by text."""
    known = {}
    for part, rating in zip(parts, ratings.tolist(), strict=True):
        if not math.isnan(rating):
            known[part] = rating
    return known


def _with_ratings(answer: Answer, ratings: Mapping[Part, float]) -> Answer:
    """Return an answer with other ratings of its texts; texts without one are unrated."""
    texts = {}
    for name, (text, _) in answer.texts.items():
        texts[name] = (text, ratings.get((answer.key, name)))
    _, rating_of_answer = texts.get("", ("", None))
    return replace(answer, texts=texts, scores=dict.fromkeys(answer.scores, rating_of_answer))


def tables_of(
    name: str, tasks: Sequence[ScoredTask], rule: str, mean_over: Callable[..., Mean]
) -> Iterator[Table]:
    """Yield the table of panels; nothing without a panel.

    Args:
        name: name of the benchmark.
        tasks: the benchmark's tasks in the runs.
        rule: see `Spec.panel`.
        mean_over: see `BenchmarkReport.mean_over`.
    """
    panels = panels_of(tasks)
    if not panels:
        return
    rule_columns: tuple[Column, ...]
    if rule == "majority":
        rule_columns = (
            Column("majority", "Majority", decimals=2),
            Column("majority_of", "Texts with a majority"),
        )
        rule_note = (
            "Majority: the main score over the texts that more than half of the judges rated "
            "equally. These texts may be easier to rate than the others."
        )
    else:
        rule_columns = (Column("median", "Median", decimals=2),)
        rule_note = "Median: the main score from the judges' median ratings."
    columns = (
        Column("name", "Run"),
        Column("judges", "Judges"),
        Column("answers", "Texts rated by all"),
        Column("left_out", "Other texts"),
        Column("mean", "Mean", decimals=2),
        *interval_columns("mean", decimals=2),
        *rule_columns,
        Column("spread", "Spread", decimals=2),
        Column("alpha", "Alpha", decimals=3),
    )
    notes = [
        (
            "Runs with the same model, answers and conditions, each with another judge. A text is "
            "an answer, or a part of an answer with its own rating. Mean: the main score from the "
            "judges' mean ratings of the texts that all judges rated; none if a run has no main "
            "score. Spread: highest minus lowest rating of a text, in "
            "points, mean over the texts. Alpha: Krippendorff's alpha of the judges, with the "
            f"interval metric, from {MIN_ITEMS} texts on."
        ),
        rule_note,
    ]
    in_panels: set[int] = set()
    for panel in panels:
        in_panels.update(id(run) for run in panel.runs)
    alone = "; ".join(task.name for task in tasks if task.judge and id(task) not in in_panels)
    if alone:
        notes.append(
            "In no panel, because no other judge rated exactly the same answers under "
            "the same conditions, an earlier run has the same judge, or the judge is "
            f"the demo judge: {alone}."
        )
    rows = [panel_row(panel, mean_over) for panel in panels]
    yield table_of_runs(f"{name}_panel", f"Panel of judges: {name}", columns, rows, notes)
