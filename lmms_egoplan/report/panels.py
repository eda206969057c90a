"""Compute the rows of panels, several judges of the same answers, and of the biases of these judges."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from krippendorff import alpha

from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.judging.panel import combine, deviations, family_of, family_rows, length_rows
from lmms_egoplan.report.equivalence import ERROR_RATE
from lmms_egoplan.report.scores import Answer, Key, Mean, ScoredTask
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, RESAMPLES, holm, interval_of_sums, sign_flips
from lmms_egoplan.report.tables import Table, read_columns, read_notes, table_of_runs
from lmms_egoplan.text import join_list

Part = tuple[Key, str]
"""The key of an answer, and the name of one of its `texts`."""

Rows = list[dict[str, Any]]

note = read_notes(
    __file__, resamples=RESAMPLES, fewest=FEWEST_CLUSTERS, min_items=MIN_ITEMS, error_rate=100 * ERROR_RATE
)
_COLUMNS = read_columns(__file__)
_FAVOURED = {"length": ("longer answers", "shorter answers"), "own family": ("its own family", "other families")}


class Panel(NamedTuple):
    """Runs of one model with the same answers and conditions, each with another judge.

    name: name of the first run.
    family: family of the model; "" if unknown.
    conditions: conditions of the runs except the judge.
    judges: names of the judges, sorted.
    answers: the answers of the first run.
    parts: the texts that all judges rated.
    ratings: ratings of these texts, shape (texts, judges).
    left_out: number of texts that not all judges rated.
    """

    name: str
    family: str
    conditions: Any
    judges: tuple[str, ...]
    answers: Mapping[Key, Answer]
    parts: list[Part]
    ratings: np.ndarray
    left_out: int


def panels_of(tasks: Iterable[ScoredTask]) -> Iterator[Panel]:
    """Find the panels among runs. The demo judge is in no panel.

    Args:
        tasks: the runs' tasks. If several runs with the same answers have the same judge, only the first counts.
    """
    groups: dict[Any, dict[str, ScoredTask]] = {}
    for task in tasks:
        texts = frozenset(
            (key, part, x[0]) for key, answer in (task.answers or {}).items() for part, x in answer.texts.items()
        )
        # Answers without a run have no version of the task, and no model.
        model = task.run.base_model if task.task_run.version else ""
        if task.judge and texts and not task.is_by_demo:
            same = model, frozenset(task.conditions.items()) - {("judges", task.judge)}, texts
            groups.setdefault(same, {}).setdefault(task.judge, task)
    for (model, conditions, _), group in groups.items():
        judges, runs = sorted(group), [group[judge].answers or {} for judge in sorted(group)]
        parts = [(key, part) for key, answer in runs[0].items() for part in answer.texts]
        ratings = np.array([[answers[key].texts[part][1] for answers in runs] for key, part in parts], dtype=float)
        is_rated = np.isfinite(ratings).all(axis=1)
        if len(judges) > 1 and is_rated.any():
            rated = [parts[index] for index in np.flatnonzero(is_rated)]
            run = next(iter(group.values())).name, family_of(model) or "", conditions, tuple(judges), runs[0]
            yield Panel(*run, rated, ratings[is_rated], len(parts) - len(rated))


def panel_row(panel: Panel, rescored: Callable[[Collection[Answer], Mapping[Part, float]], Mean]) -> dict[str, Any]:
    """Return a panel's combined scores, spread and agreement.

    Args:
        panel: the panel.
        rescored: see `BenchmarkReport.rescored`.
    """
    combined = combine(panel.ratings)
    row = panel._asdict() | {"answers": len(panel.parts), "judges": "; ".join(panel.judges)}
    for name in ("majority", "median", "mean"):
        ratings = {part: x for part, x in zip(panel.parts, combined[name].tolist(), strict=True) if not np.isnan(x)}
        row |= rescored(panel.answers.values(), ratings).cells(name) | {f"{name}_of": len(ratings)}
    if len(panel.parts) >= MIN_ITEMS and np.ptp(panel.ratings):
        row["alpha"] = float(alpha(panel.ratings.T, level_of_measurement="interval"))
    return row | {"spread": float(combined["spread"].mean())}


def bias_rows(panels: Iterable[Panel]) -> Rows:
    """Return each judge's bias by length and for its own family, over all models with the same judges."""
    rows: Rows = []
    pools: dict[Any, list[Panel]] = {}
    for panel in panels:
        pools.setdefault((panel.judges, panel.conditions), []).append(panel)
    for (judges, _), pool in pools.items():
        texts = [(panel, key, part, panel.answers[key]) for panel in pool for key, part in panel.parts]
        questions = np.array([repr((key, part)) for _, key, part, _ in texts])
        words = np.array([len(answer.texts[part][0].split()) for *_, part, answer in texts])
        models, families, clusters = np.array([(x.name, x.family, str(answer.cluster)) for x, *_, answer in texts]).T
        groups = models if len(set(questions)) == len(texts) else questions
        # A text of an unknown family is alone in its group, so it does not count.
        known = np.where(families == "", np.arange(len(texts)).astype(str), questions)
        for judge, deviation in zip(judges, deviations(np.concatenate([x.ratings for x in pool])).T, strict=True):
            own = families == (family_of(judge) or "unknown")
            measures = length_rows(deviation, words, groups), family_rows(deviation, own, known)
            for kind, summands in zip(_FAVOURED, measures, strict=True):
                is_used, (above, below, count) = summands[:, 2] > 0, summands.sum(axis=0)
                if below > 0:
                    used, names = summands[is_used], clusters[is_used]
                    interval = interval_of_sums(used, names, lambda sums: sums[..., 0] / sums[..., 1])
                    p_value = sign_flips(np.bincount(np.unique(names, return_inverse=True)[1], used[:, 0]))
                    row = {"judge": judge, "kind": kind, "p_value": p_value, "answers": int(count)}
                    rows.append(
                        row | Mean(above / below, interval).cells("effect") | {"models": len({*models[is_used]})}
                    )
    for row, corrected in zip(rows, holm([row["p_value"] for row in rows]), strict=True):
        is_found = corrected < ERROR_RATE and row["low"] is not None and row["low"] * row["high"] > 0
        row["finding"] = f"favours {_FAVOURED[row['kind']][row['effect'] < 0]}" if is_found else None
        row["p_holm"] = corrected
    return rows


def tables_of(
    benchmark: str,
    tasks: Iterable[ScoredTask],
    rule: str,
    rescored: Callable[[Collection[Answer], Mapping[Part, float]], Mean],
) -> Iterator[Table]:
    """Yield the table of panels and that of biases; nothing without a panel.

    Args:
        benchmark: name of the benchmark.
        tasks: the benchmark's tasks in the runs.
        rule: see `Spec.panel`.
        rescored: see `BenchmarkReport.rescored`.
    """
    if panels := [*panels_of(tasks)]:
        biases, rules = bias_rows(panels), {"majority", "median"} - {rule}
        measured = [(row["judge"], row["kind"]) for row in biases]
        every = [(judge, kind) for panel in panels for judge in panel.judges for kind in _FAVOURED]
        missing = dict.fromkeys(f"{judge} ({kind})" for judge, kind in every if (judge, kind) not in measured)
        families = {judge: family_of(judge) for judge, _ in every} | {panel.name: panel.family for panel in panels}
        unknown = [name for name, family in families.items() if not family]
        gaps = note("gaps", unknown=join_list(unknown) or "none", missing=join_list([*missing]) or "none")
        columns = [column for column in _COLUMNS["panel"] if column.key.partition("_")[0] not in rules]
        rows = [panel_row(panel, rescored) for panel in panels]
        notes = [note("panel"), note(rule), gaps]
        yield replace(table_of_runs(f"{benchmark}_panel", "Panel of judges", columns, rows, notes), role="judges")
        notes = [note(name) for name in ("bias", "length", "own_family", "test")]
        table = table_of_runs(f"{benchmark}_bias", "Bias of judges", _COLUMNS["bias"], biases, notes)
        yield replace(table, role="judges")
