"""Make the tables of panels, several judges of the same answers, and of the biases of these judges."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from krippendorff import alpha

from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.judging.panel import combine, deviations, family_of, slope_rows
from lmms_egoplan.report.equivalence import ERROR_RATE
from lmms_egoplan.report.scores import Key, Mean, ScoredTask
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, RESAMPLES, holm, interval_of_sums, sign_flips
from lmms_egoplan.report.tables import Table, read_columns, read_notes, table_of_runs

note = read_notes(__file__, resamples=RESAMPLES, fewest=FEWEST_CLUSTERS, min_items=MIN_ITEMS, error_rate=ERROR_RATE)
_COLUMNS = read_columns(__file__)


class Panel(NamedTuple):
    """Runs of one model with the same answers and conditions, each with another judge.

    runs: the runs' tasks, in the order of their judges' names.
    family: family of the model; None if unknown.
    parts: the texts that all judges rated: the key of the answer, and the text's name in `Answer.texts`.
    ratings: ratings of these texts, shape (texts, judges).
    """

    runs: tuple[Any, ...]
    family: str | None
    parts: list[tuple[Key, str]]
    ratings: np.ndarray


def panels_of(tasks: Iterable[ScoredTask]) -> dict[Any, list[Panel]]:
    """Find the panels among runs, and group them by judges and by the other conditions. The demo judge is in no panel.

    Args:
        tasks: the runs' tasks. If several runs with the same answers have the same judge, only the first counts.
    """
    groups: dict[Any, dict[str, Any]] = {}
    for task in tasks:
        if task.judge and task.answers and not task.is_by_demo:
            texts = frozenset((x.key, part, x.texts[part][0]) for x in task.answers.values() for part in x.texts)
            conditions = frozenset((task.conditions | {"judges": "", "versions": task.task_run.version}).items())
            # Answers without a run have no version of the task, and no model.
            model = task.run.base_model if task.task_run.version else ""
            groups.setdefault((model, conditions, texts), {}).setdefault(task.judge, task)
    panels: dict[Any, list[Panel]] = {}
    for (model, conditions, _), group in groups.items():
        judges, runs = zip(*sorted(group.items()), strict=True)
        parts = [(x.key, part) for x in runs[0].answers.values() for part in x.texts]
        ratings = [[task.answers[key].texts[part][1] for task in runs] for key, part in parts]
        is_rated = [None not in of_text for of_text in ratings]
        if len(runs) > 1 and any(is_rated):
            rated = [*compress(parts, is_rated)], np.array([*compress(ratings, is_rated)], dtype=float)
            panels.setdefault((judges, conditions), []).append(Panel(runs, family_of(model), *rated))
    return panels


def panel_row(panel: Panel, mean_over: Callable[..., Mean]) -> dict[str, Any]:
    """Return a panel's combined scores, spread and agreement.

    Args:
        panel: the panel.
        mean_over: see `BenchmarkReport.mean_over`.
    """
    answers, combined = panel.runs[0].answers.values(), combine(panel.ratings)
    row = {"name": panel.runs[0].name, "family": panel.family, "judges": "; ".join(run.judge for run in panel.runs)}
    row |= {"answers": len(panel.parts), "left_out": sum(len(x.texts) for x in answers) - len(panel.parts)}
    for name in ("majority", "median", "mean"):
        ratings = {part: x for part, x in zip(panel.parts, combined[name].tolist(), strict=True) if not np.isnan(x)}
        rated = []
        for x in answers:
            texts = {part: (text, ratings.get((x.key, part))) for part, (text, _) in x.texts.items()}
            rated.append(replace(x, texts=texts, scores=dict.fromkeys(x.scores, texts.get("", ("", None))[1])))
        mean = Mean() if any(run.main.value is None for run in panel.runs) else mean_over(rated)
        row |= mean.cells(name) | {f"{name}_of": len(ratings)}
    if len(panel.parts) >= MIN_ITEMS and np.ptp(panel.ratings):
        row["alpha"] = float(alpha(panel.ratings.T, level_of_measurement="interval"))
    return row | {"spread": float(combined["spread"].mean())}


def bias_rows(panels: Mapping[Any, Sequence[Panel]]) -> list[dict[str, Any]]:
    """Return each judge's bias by length and for its own family, over all models with the same judges."""
    rows = []
    for (judges, _), pool in panels.items():
        texts = [(panel, panel.runs[0].answers[key], key, part) for panel in pool for key, part in panel.parts]
        names = [(x.runs[0].name, x.family or "", str(answer.cluster), repr(part)) for x, answer, *part in texts]
        models, families, clusters, questions = np.array(names).T
        words = np.log2([len(answer.texts[part][0].split()) or 1 for _, answer, _, part in texts])
        groups = models if len({*questions}) == len(texts) else questions
        # A text of an unknown family is alone in its group, so it does not count.
        known = np.where(families == "", np.arange(len(texts)).astype(str), questions)
        for judge, deviation in zip(judges, deviations(np.concatenate([x.ratings for x in pool])).T, strict=True):
            is_own = families == (family_of(judge) or "unknown")
            for kind, values, of_kind in (("longer answers", words, groups), ("its own family", is_own, known)):
                summands = slope_rows(values, deviation, of_kind)
                used, of_used = (values[summands[:, 2] > 0] for values in (summands, clusters))
                if len(used):
                    interval = interval_of_sums(used, of_used, lambda sums: sums[..., 0] / sums[..., 1])
                    p = sign_flips(np.bincount(np.unique(of_used, return_inverse=True)[1], used[:, 0]))
                    row = {"judge": judge, "family": family_of(judge), "kind": kind, "p_value": p, "answers": len(used)}
                    rows.append(row | Mean(used[:, 0].sum() / used[:, 1].sum(), interval).cells("effect"))
    for row, p_holm in zip(rows, holm([row["p_value"] for row in rows]), strict=True):
        is_found = p_holm < ERROR_RATE and (row["low"] or 0) * (row["high"] or 0) > 0
        finding = f"{'favours' if row['effect'] > 0 else 'disfavours'} {row['kind']}" if is_found else None
        row |= {"p_holm": p_holm, "finding": finding}
    return rows


def tables_of(name: str, tasks: Sequence[ScoredTask], rule: str, mean_over: Callable[..., Mean]) -> Iterator[Table]:
    """Yield the table of panels and that of biases; nothing without a panel.

    Args:
        name: name of the benchmark.
        tasks: the benchmark's tasks in the runs.
        rule: see `Spec.panel`.
        mean_over: see `BenchmarkReport.mean_over`.
    """
    if panels := panels_of(tasks):
        rows, columns = [panel_row(panel, mean_over) for pool in panels.values() for panel in pool], _COLUMNS[rule]
        used = [id(run) for pool in panels.values() for panel in pool for run in panel.runs]
        alone = [task.name for task in tasks if task.judge and id(task) not in used]
        notes = [note("panel"), note(rule), *([note("alone", runs="; ".join(alone))] if alone else [])]
        yield table_of_runs(f"{name}_panel", f"Panel of judges: {name}", columns, rows, notes)
        rows, notes = bias_rows(panels), [note(part) for part in ("bias", "length", "own_family", "test")]
        yield table_of_runs(f"{name}_bias", f"Bias of judges: {name}", _COLUMNS["bias"], rows, notes)
