"""EgoIntent's tables: beside Table 3, with intervals, and by scenario or category."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from lmms_egoplan.benchmarks.egointent.protocol import RELEASE_NAMES, TITLES
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.report.answers import OFFICIAL, SCORES, Graded, fields_of
from lmms_egoplan.report.comparisons import compared
from lmms_egoplan.report.document import Column, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.published import load_table, published_with_runs
from lmms_egoplan.report.scored import interval_note

DECIMALS = 2
# Of a step's three ratings, the mean from which the gallery calls it right, and below which it calls it wrong.
RIGHT, WRONG = 75, 25
note = read_notes(__file__, right=RIGHT, wrong=WRONG)
_TITLES = {"overall": "Overall", **TITLES, "indoor": "Indoor", "outdoor": "Outdoor"}
_COLUMNS = read_columns(__file__)
_INTERVAL_NOTE = interval_note("videos", "steps")


def all_tables(graded: Sequence[Graded]) -> Iterator[Table | None]:
    """Yield the section's tables in order."""
    yield _beside("Semantic consistency, beside Table 3", "table3", graded, {name: name for name in SCORES})
    title = "Semantic consistency and diagnostics, beside the leaderboard of August 2026"
    of_release = [run for run in graded if run.is_release]
    yield _beside(title, "leaderboard", of_release, {"overall": "overall", **RELEASE_NAMES})
    yield _score_table(graded)
    yield from _scenario_tables(graded)
    shown = ("egointent_comparisons", "Every pair of runs: overall", DECIMALS, "videos", note("comparisons"))
    yield compared(graded, "overall", *shown)


def _beside(title: str, published: str, graded: Sequence[Graded], columns: Mapping[str, str]) -> Table:
    """Return the scores of each run among published ones, whose columns these are by the name of the score."""
    rows = []
    for run in graded:
        scores = {column: run.means[name].value for name, column in columns.items()}
        cells: dict[str, Value] = {"model": run.name, "apart": "; ".join(run.apart)}
        rows.append(cells | scores | run.main.cells("overall") | run.shares())
    notes = (note("protocol"), note("official", steps=OFFICIAL), _INTERVAL_NOTE, note("shares"))
    return published_with_runs(title, load_table("egointent", published), rows, _COLUMNS["table3"], notes)


def _score_table(graded: Sequence[Graded]) -> Table:
    """Return each score of each run with its interval and what it is over."""
    rows: list[dict[str, Value]] = []
    for name in SCORES:
        for run in graded:
            mean, rated = run.means[name], None
            if run.answers is not None:
                ratings = [step.record.graded.ratings[field] for step in run.of(name) for field in fields_of(name)]
                rated = sum(rating is not None for rating in ratings)
            if mean.questions != 0:
                over = {"steps": mean.questions, "videos": mean.clusters, "rated": rated}
                rows.append({"score_of": _TITLES[name], "model": run.name, **mean.cells("score"), **over})
    notes = (note("overall"), note("ratings"), _INTERVAL_NOTE, note("gallery"))
    return table_of_runs("egointent_scores", "Scores with intervals", _COLUMNS["scores"], rows, notes)


def _scenario_tables(graded: Sequence[Graded]) -> Iterator[Table]:
    """Yield the numbers of the heat maps, also of runs without samples; Goal-Step steps are in a separate table."""
    for kind in (False, True):
        if runs := [run for run in graded if run.is_goalstep is kind]:
            yield _groups(runs, is_goalstep=kind)


def _groups(graded: Sequence[Graded], *, is_goalstep: bool) -> Table:
    name, names = ("category", "categories") if is_goalstep else ("scenario", "scenarios")
    scores = {run.name: _by_group(run, name) for run in graded}
    rows: list[tuple[float, str, dict[str, Value]]] = []
    for group in {group for of_run in scores.values() for group in of_run}:
        numbers = {run: of_run.get(group) for run, of_run in scores.items()}
        known = {run: number for run, number in numbers.items() if number is not None and not math.isnan(number)}
        steps = {sum(x.groups["group"] == group for x in run.answers.values()) for run in graded if run.answers}
        counts = steps.pop() if len(steps) == 1 else " / ".join(map(str, sorted(steps))) or None
        rows.append((fmean([*known.values()] or [math.inf]), group, {name: group, "steps": counts, **known}))
    columns = (
        Column(name, name.capitalize()),
        Column("steps", GOALSTEP_STEPS if is_goalstep else "Steps"),
        *(Column(run.name, run.name, DECIMALS) for run in graded),
    )
    notes = (note("groups", group=name), note("two_numbers"), *([note("category")] if is_goalstep else []))
    ordered = [row for *_, row in sorted(rows, key=lambda row: row[:2])]
    title = f"{GOALSTEP_STEPS}: overall score by category" if is_goalstep else "Overall score by scenario"
    return table_of_runs(f"egointent_{names}", title, columns, ordered, notes)


def _by_group(run: Graded, name: str) -> Mapping[str, float]:
    scores = run.task_run.metrics.get(name)
    return scores if isinstance(scores, Mapping) else {}
