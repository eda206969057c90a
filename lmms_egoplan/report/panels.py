"""Make the table of panels: several judges of the same answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from krippendorff import alpha

from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.judging.panel import combine
from lmms_egoplan.report.scores import Key, Mean, ScoredTask
from lmms_egoplan.report.tables import Column, Table, interval_columns, table_of_runs


class Panel(NamedTuple):
    """Runs of one model with the same answers and conditions, each with another judge.

    runs: the runs' tasks, in the order of their judges' names.
    parts: the texts that all judges rated: the key of the answer, and the text's name in
    `Answer.texts`.
    ratings: ratings of these texts, shape (texts, judges).
    """

    runs: tuple[Any, ...]
    parts: list[tuple[Key, str]]
    ratings: np.ndarray


def panels_of(tasks: Iterable[ScoredTask]) -> list[Panel]:
    """Find the panels among runs. The demo judge is in no panel.

    Args:
        tasks: the runs' tasks. If several runs with the same answers have the same judge, only the
            first counts.
    """
    groups: dict[Any, dict[str, Any]] = {}
    for task in tasks:
        if task.judge and task.answers and not task.is_by_demo:
            texts = frozenset(
                (x.key, part, x.texts[part][0]) for x in task.answers.values() for part in x.texts
            )
            conditions = frozenset(
                (task.conditions | {"judges": "", "versions": task.task_run.version}).items()
            )
            # Answers without a run have no version of the task, and no model.
            model = task.run.base_model if task.task_run.version else ""
            groups.setdefault((model, conditions, texts), {}).setdefault(task.judge, task)
    panels: list[Panel] = []
    for group in groups.values():
        runs = tuple(group[judge] for judge in sorted(group))
        rated_parts = []
        ratings = []
        for answer in runs[0].answers.values():
            for part in answer.texts:
                ratings_of_part = [task.answers[answer.key].texts[part][1] for task in runs]
                if None not in ratings_of_part:
                    rated_parts.append((answer.key, part))
                    ratings.append(ratings_of_part)
        if len(runs) > 1 and rated_parts:
            panels.append(Panel(runs, rated_parts, np.array(ratings, dtype=float)))
    return panels


def panel_row(panel: Panel, mean_over: Callable[..., Mean]) -> dict[str, Any]:
    """Return a panel's combined scores, spread and agreement.

    Args:
        panel: the panel.
        mean_over: see `BenchmarkReport.mean_over`.
    """
    answers = panel.runs[0].answers.values()
    combined = combine(panel.ratings)
    row = {"name": panel.runs[0].name, "judges": "; ".join(run.judge for run in panel.runs)}
    row |= {
        "answers": len(panel.parts),
        "left_out": sum(len(x.texts) for x in answers) - len(panel.parts),
    }
    for name in ("majority", "median", "mean"):
        ratings = {
            part: x
            for part, x in zip(panel.parts, combined[name].tolist(), strict=True)
            if not np.isnan(x)
        }
        rated = []
        for x in answers:
            texts = {
                part: (text, ratings.get((x.key, part))) for part, (text, _) in x.texts.items()
            }
            rated.append(
                replace(
                    x, texts=texts, scores=dict.fromkeys(x.scores, texts.get("", ("", None))[1])
                )
            )
        mean = Mean() if any(run.main.value is None for run in panel.runs) else mean_over(rated)
        row |= mean.cells(name) | {f"{name}_of": len(ratings)}
    if len(panel.parts) >= MIN_ITEMS and np.ptp(panel.ratings):
        row["alpha"] = float(alpha(panel.ratings.T, level_of_measurement="interval"))
    return row | {"spread": float(combined["spread"].mean())}


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
            Column("majority_of", "Of"),
        )
        rule_note = (
            "Majority: the main score over the texts that more than half of the judges rated "
            "equally. Of: number of these texts. They may be easier to rate than the others."
        )
    else:
        rule_columns = (Column("median", "Median", decimals=2),)
        rule_note = "Median: the main score from the judges' median ratings."
    columns = (
        Column("name", "Run"),
        Column("judges", "Judges"),
        Column("answers", "Rated"),
        Column("left_out", "Unrated"),
        Column("mean", "Mean", decimals=2),
        *interval_columns("mean", decimals=2),
        *rule_columns,
        Column("spread", "Spread", decimals=2),
        Column("alpha", "Alpha", decimals=3),
    )
    notes = [
        (
            "Runs with the same model, answers and conditions, each with another judge. Rated: "
            "texts that all judges rated. A text is an answer, or a part of an answer with its "
            "own rating. Mean: the main score from the judges' mean ratings of these texts; empty "
            "if a run has no main score. Spread: highest minus lowest rating of a text, in "
            "points, mean over the texts. Alpha: Krippendorff's alpha of the judges, with the "
            f"interval metric, from {MIN_ITEMS} texts on."
        ),
        rule_note,
    ]
    used = {id(run) for panel in panels for run in panel.runs}
    alone = "; ".join(task.name for task in tasks if task.judge and id(task) not in used)
    if alone:
        notes.append(
            "In no panel, because no other judge rated exactly the same answers under "
            "the same conditions, an earlier run has the same judge, or the judge is "
            f"the demo judge: {alone}."
        )
    rows = [panel_row(panel, mean_over) for panel in panels]
    yield table_of_runs(f"{name}_panel", f"Panel of judges: {name}", columns, rows, notes)
