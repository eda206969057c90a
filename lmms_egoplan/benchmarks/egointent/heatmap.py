"""Models by scenarios (Fig. 7): what stands in which cell, in which order, and what is to be said of it."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from lmms_egoplan.benchmarks.egointent.fields import FIELDS
from lmms_egoplan.benchmarks.egointent.logged_runs import LoggedRun, LoggedStep


@dataclass(frozen=True)
class Cell:
    """A score, 0..100, NaN where nothing is judged; `partial` if some of what it is over is not judged."""

    score: float
    partial: bool


@dataclass(frozen=True)
class Heatmap:
    """Scores of models by scenarios.

    models: names, the highest overall score first.
    scenarios: the one with the lowest average over the models first.
    overall: per model, over all its steps.
    cells: per model, one for each scenario.
    notes: judge, coverage and number of steps.
    warnings: why the models may not compare.
    """

    models: tuple[str, ...]
    scenarios: tuple[str, ...]
    overall: tuple[Cell, ...]
    cells: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def make_heatmap(runs: Sequence[LoggedRun]) -> Heatmap:
    """Scores of at least one run by scenarios.

    A score is the mean over the three fields of the mean over a field's judged steps, as Table 3's Overall. What has
    no score comes last, and does not count for a scenario's average; of equals, names decide.
    """
    scores = {run.name: _score(run.steps.values()) for run in runs}
    ordered = sorted(runs, key=lambda run: (math.isnan(scores[run.name].score), -scores[run.name].score, run.name))
    columns = {
        scenario: [_score([step for step in run.steps.values() if step.scenario == scenario]) for run in ordered]
        for scenario in {step.scenario for run in runs for step in run.steps.values()}
    }
    averages = {
        scenario: _mean([cell.score for cell in cells if not math.isnan(cell.score)])
        for scenario, cells in columns.items()
    }
    scenarios = sorted(columns, key=lambda name: (math.isnan(averages[name]), averages[name], name))
    return Heatmap(
        models=tuple(run.name for run in ordered),
        scenarios=tuple(scenarios),
        overall=tuple(scores[run.name] for run in ordered),
        cells=tuple(zip(*(columns[name] for name in scenarios), strict=True)),
        notes=_notes(ordered),
        warnings=tuple(_warnings(ordered)),
    )


def _score(steps: Collection[LoggedStep]) -> Cell:
    rated = [[step.ratings[field] for step in steps if step.ratings[field] is not None] for field in FIELDS]
    return Cell(fmean(map(_mean, rated)), any(len(ratings) < len(steps) for ratings in rated))


def _mean(numbers: Sequence[float]) -> float:
    return fmean(numbers) if numbers else math.nan


def _notes(runs: Sequence[LoggedRun]) -> tuple[str, ...]:
    judges = _judges(runs)
    return (
        f"{'Judges' if len(judges) > 1 else 'Judge'}: {', '.join(judges) or 'none'}",
        f"judge coverage {_range([_coverage(run) for run in runs], '.1%')}",
        f"{_range([len(run.steps) for run in runs], ',')} steps",
    )


def _warnings(runs: Sequence[LoggedRun]) -> Iterable[str]:
    if len(_judges(runs)) > 1:
        told = [f"{run.name}: {', '.join(_judges([run])) or 'none'}" for run in runs]
        yield f"different judges, whose scores do not compare ({'; '.join(told)})"
    for title, attribute in (("prompts", "prompt"), ("judge's prompts", "judge_prompt")):
        versions = {run.name: getattr(run, attribute) for run in runs}
        if len(set(versions.values())) > 1:
            told = [f"{name}: {version or 'unknown'}" for name, version in versions.items()]
            yield f"different versions of the {title}, whose scores do not compare ({'; '.join(told)})"
    steps = [run.steps.keys() for run in runs]
    common = set.intersection(*map(set, steps))
    if any(len(ids) > len(common) for ids in steps):
        told = [f"{run.name}: {len(run.steps):,}" for run in runs]
        yield f"runs over different steps, {len(common):,} of which are in all ({'; '.join(told)})"
    moved = [step_id for step_id in sorted(common) if len({run.steps[step_id].scenario for run in runs}) > 1]
    if moved:
        yield f"{len(moved):,} steps are in different scenarios in different runs, as {moved[0]}"


def _judges(runs: Iterable[LoggedRun]) -> list[str]:
    return sorted({judge for run in runs for step in run.steps.values() for judge in step.judges})


def _coverage(run: LoggedRun) -> float:
    return fmean(rating is not None for step in run.steps.values() for rating in step.ratings.values())


def _range(numbers: Sequence[float], form: str) -> str:
    low, high = (format(number, form) for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"
