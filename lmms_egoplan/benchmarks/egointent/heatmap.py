"""Models by scenarios (Fig. 7): what stands in which cell, in which order, and what is to be said of it.

Goal-Step steps have no scenario; a heat map of them is by the categories of their goals.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from lmms_egoplan.benchmarks.egointent import metrics
from lmms_egoplan.benchmarks.egointent.answer_files import LoggedRun, LoggedStep
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS

# Runs that a warning names of those that are alike.
_NAMED = 3


@dataclass(frozen=True)
class Cell:
    """A score, 0..100, NaN where nothing is judged; `partial` if some of what it is over is not judged."""

    score: float
    partial: bool


@dataclass(frozen=True)
class Heatmap:
    """Scores of models by scenarios.

    models: names, the highest overall score first.
    scenarios: the one with the lowest average over the models first; categories of a heat map of Goal-Step steps.
    overall: per model, over all its steps.
    cells: per model, one for each scenario.
    notes: judge, coverage and number of steps.
    warnings: why the models may not compare.
    is_goalstep: whether it is of Goal-Step steps.
    """

    models: tuple[str, ...]
    scenarios: tuple[str, ...]
    overall: tuple[Cell, ...]
    cells: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    is_goalstep: bool = False

    @property
    def by(self) -> str:
        """What a column is."""
        return "category" if self.is_goalstep else "scenario"

    @property
    def title(self) -> str:
        return f"{GOALSTEP_STEPS if self.is_goalstep else 'EgoIntent'}: overall score by {self.by}"


def make_heatmap(runs: Sequence[LoggedRun]) -> Heatmap:
    """Scores by scenarios, of at least one run, all over the benchmark's steps or all over Goal-Step's.

    Scores are `metrics.overall`, Table 3's Overall. What has none comes last, and does not count for a scenario's
    average; of equals, names decide.
    """
    scores = {run.name: _score(run.steps.values()) for run in runs}
    ordered = sorted(runs, key=lambda run: (_rank([-scores[run.name].score]), run.name))
    columns = {
        group: [_score([step for step in run.steps.values() if step.group == group]) for run in ordered]
        for group in {step.group for run in runs for step in run.steps.values()}
    }
    scenarios = sorted(columns, key=lambda name: (_rank([cell.score for cell in columns[name]]), name))
    return Heatmap(
        models=tuple(run.name for run in ordered),
        scenarios=tuple(scenarios),
        overall=tuple(scores[run.name] for run in ordered),
        cells=tuple(zip(*(columns[name] for name in scenarios), strict=True)),
        notes=tuple(_notes(ordered)),
        warnings=tuple(_warnings(ordered)),
        is_goalstep=ordered[0].is_goalstep,
    )


def _score(steps: Collection[LoggedStep]) -> Cell:
    graded = [step.graded for step in steps]
    values = [{"ratings": step.ratings, "missing": step.missing} for step in graded]
    score = metrics.mean_of_ratings(values, "ratings", FIELDS)
    return Cell(score, any(step.ratings[field] is None for step in graded for field in FIELDS))


def _rank(scores: Sequence[float]) -> float:
    """Mean of what is known; behind all others without such."""
    return fmean([score for score in scores if not math.isnan(score)] or [math.inf])


def _notes(runs: Sequence[LoggedRun]) -> Iterator[str]:
    judges = _judges(runs)
    yield f"{'Judges' if len(judges) > 1 else 'Judge'}: {', '.join(judges) or 'none'}"
    yield f"judge coverage {_range([_coverage(run) for run in runs], '.1%')}"
    kind = GOALSTEP_STEPS if runs[0].is_goalstep else "steps"
    yield f"{_range([len(run.steps) for run in runs], ',')} {kind}"
    unverified = sum(step.unverified for run in runs for step in run.steps.values())
    if unverified:
        yield f"{unverified / sum(len(run.steps) for run in runs):.0%} of the references unverified"


def _warnings(runs: Sequence[LoggedRun]) -> Iterator[str]:
    if len(_judges(runs)) > 1:
        judges = {run.name: ", ".join(_judges([run])) or "none" for run in runs}
        yield f"different judges, whose scores do not compare ({_by_value(judges)})"
    for what, field in (("task", "version"), ("prompt", "prompt"), ("judge's prompt", "judge_prompt")):
        versions = {run.name: f"version {getattr(run, field) or 'unknown'}" for run in runs}
        if len(set(versions.values())) > 1:
            yield f"different versions of the {what}, whose scores do not compare ({_by_value(versions)})"
    common = set.intersection(*(set(run.steps) for run in runs))
    if any(len(run.steps) > len(common) for run in runs):
        counts = {run.name: f"{len(run.steps):,} steps" for run in runs}
        yield f"runs over different steps, {len(common):,} of which are in all ({_by_value(counts)})"
    moved = [step_id for step_id in sorted(common) if len({run.steps[step_id].group for run in runs}) > 1]
    if moved:
        groups = "categories" if runs[0].is_goalstep else "scenarios"
        yield f"{len(moved):,} steps (e.g. {moved[0]}) are in different {groups} in different runs"


def _by_value(values: Mapping[str, str]) -> str:
    """What each value is the value of: "version 1: a, b; version 2: c"."""
    lines = []
    for value in sorted(set(values.values())):
        lines.append(f"{value}: {_names([name for name, other in values.items() if other == value])}")
    return "; ".join(lines)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _judges(runs: Iterable[LoggedRun]) -> list[str]:
    graded = [step.graded for run in runs for step in run.steps.values()]
    return sorted({judge for step in graded for judge in map(step.judges.get, step.judged) if judge is not None})


def _coverage(run: LoggedRun) -> float:
    graded = [step.graded for step in run.steps.values()]
    return metrics.judge_coverage([{"found": len(step.fields), "judged": len(step.judged)} for step in graded])


def _range(numbers: Sequence[float], form: str) -> str:
    known = [number for number in numbers if not math.isnan(number)]
    if not known:
        return "n/a"
    low, high = (format(number, form) for number in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"
