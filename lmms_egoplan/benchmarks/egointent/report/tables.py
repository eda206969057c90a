"""EgoIntent's tables: beside Table 3, with intervals, by scenario or category, and run against run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from lmms_egoplan.benchmarks.egointent.protocol import TITLES
from lmms_egoplan.benchmarks.egointent.published import load
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.report.answers import Graded
from lmms_egoplan.benchmarks.egointent.report.items import RIGHT, WRONG
from lmms_egoplan.benchmarks.egointent.report.scores import DECIMALS, OFFICIAL, SCORES, Intervals, compares, counts
from lmms_egoplan.report.comparisons import comparisons
from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.statistics import RESAMPLES

_TITLES = {"overall": "Overall", **TITLES, "indoor": "Indoor", "outdoor": "Outdoor"}
_SHARES = (
    Column("questions", "Steps"),
    Column("coverage", "Coverage %", 1),
    Column("parsed", "Parsed %", 1),
    Column("judged", "Judged %", 1),
    Column("truncated", "Truncated %", 1),
    Column("unverified", "Unverified %", 1),
    Column("suspect", "Suspect %", 1),
    Column("media", "Shown as"),
    Column("judge", "Judge"),
    Column("prompts", "Prompt, judge's prompt"),
)
_SHARES_NOTE = (
    "Coverage: share of the annotation file's steps that were asked. Parsed: share of the fields, three a step, that "
    "were found in the replies; one that is missing scores 0, as on the leaderboard of the benchmark's release. "
    "Judged: share of the found fields with a rating; the "
    "others count as neither right nor wrong. Truncated: share of the replies that the limit on new tokens ended, as "
    "far as that is known. Unverified: share of the steps whose references nobody has verified. Suspect: share of the "
    "found fields that look as if they rated themselves. Shown as: whether the model got the frames of a step as "
    "a video or as images (sec. 4.1: open models get videos, closed ones images)."
)
_INTERVAL_NOTE = (
    f"Low, high: 95 % interval, percentiles of {RESAMPLES:,} bootstrap resamples of the videos, each with all of its "
    "steps. None for fewer than two videos."
)
_PROTOCOL_NOTE = (
    "The paper prints neither its prompt nor its judge's, and names the judge Qwen3 without a size. Scores compare "
    "where steps, judge and the versions of both prompts are the same; with the published ones they do not compare to "
    "the digit."
)


def table3(graded: Sequence[Graded], intervals: Intervals) -> Table:
    """Scores of each run among the published ones."""
    own = []
    for run in graded:
        low, high = intervals[run.name].get("overall", (None, None))
        scores = {name: run.number(name) for name in SCORES}
        own.append({"model": run.name, "low": low, "high": high, "compares": compares(run)} | scores | run.shares())
    ends = (Column("low", "Low (overall)", DECIMALS), Column("high", "High (overall)", DECIMALS))
    notes = (_PROTOCOL_NOTE, f"Published scores are over {OFFICIAL:,} steps.", _INTERVAL_NOTE, _SHARES_NOTE)
    return published_with_runs("Semantic consistency, beside Table 3", load("table3"), own, (*ends, *_SHARES), notes)


def score_table(graded: Sequence[Graded], intervals: Intervals) -> Table:
    """Each score of each run with its interval and what it is over."""
    columns = (
        Column("score_of", "Score"),
        Column("model", "Run"),
        Column("score", "Value", DECIMALS),
        Column("low", "Low", DECIMALS),
        Column("high", "High", DECIMALS),
        Column("steps", "Steps"),
        Column("videos", "Videos"),
        Column("rated", "Ratings"),
    )
    rows = []
    for name in SCORES:
        for run in graded:
            low, high = intervals[run.name].get(name, (None, None))
            steps, videos, rated = counts(run, name)
            if steps != 0:
                values = (_TITLES[name], run.name, run.number(name), low, high, steps, videos, rated)
                rows.append(Row(values, is_own=True))
    notes = (
        "Overall is the mean of the three fields' scores; indoor and outdoor are the overall of those steps.",
        "Ratings: fields that the score is over, those that are missing and score 0 among them.",
        _INTERVAL_NOTE,
        f"The gallery calls a step right from a mean of its three ratings of {RIGHT} on, and wrong below {WRONG}.",
    )
    return Table("egointent_scores", "Scores with intervals", columns, tuple(rows), "the runs", notes)


def scenarios(graded: Sequence[Graded]) -> list[Table]:
    """What the heat maps show, in numbers, and of runs without samples too; Goal-Step steps in a table of their own."""
    kinds = [[run for run in graded if run.is_goalstep is kind] for kind in (False, True)]
    return [_groups(runs, runs[0].is_goalstep) for runs in kinds if runs]


def _groups(graded: Sequence[Graded], is_goalstep: bool) -> Table:
    name, names = ("category", "categories") if is_goalstep else ("scenario", "scenarios")
    scores = [_by_group(run) for run in graded]
    rows = []
    for group in {group for each in scores for group in each}:
        values = [value if math.isfinite(value := each.get(group, math.nan)) else None for each in scores]
        known = [value for value in values if value is not None]
        steps = {sum(step.group == group for step in run.steps.values()) for run in graded if run.steps}
        told = steps.pop() if len(steps) == 1 else " / ".join(map(str, sorted(steps))) or None
        rows.append((not known, fmean(known or [0]), group, Row((group, told, *values), is_own=True)))
    columns = (
        Column(name, name.capitalize()),
        Column("steps", GOALSTEP_STEPS if is_goalstep else "Steps"),
        *(Column(run.name, run.name, DECIMALS) for run in graded),
    )
    notes = (
        f"Overall score of each {name}'s steps, the {name} with the lowest average over the runs first.",
        "Two numbers of steps: of different runs.",
        *(["The category is that of the video's goal in Goal-Step; the paper's scenarios are places."] * is_goalstep),
    )
    ordered = tuple(row for *_, row in sorted(rows, key=lambda each: each[:3]))
    title = f"{GOALSTEP_STEPS}: overall score by category" if is_goalstep else "Overall score by scenario"
    return Table(f"egointent_{names}", title, columns, ordered, "the runs", notes)


def _by_group(run: Graded) -> Mapping[str, float]:
    """Scores by scenario or category; before version 1.2 of the task both were logged as scenarios."""
    scores = (run.task_run.metrics.get(name) for name in ("category", "scenario"))
    return next((found for found in scores if isinstance(found, Mapping)), {})


def comparison_table(logged: Sequence[Graded]) -> Table | None:
    """Every pair of runs over the steps that both have all ratings for; None where no two share such."""
    scores = {
        run.name: {
            "\n".join(key): fmean(step.graded.ratings.values())
            for key, step in run.steps.items()
            if None not in step.graded.ratings.values()
        }
        for run in logged
    }
    videos = {"\n".join(key): step.video_id for run in logged for key, step in run.steps.items()}
    table = comparisons(scores, videos, "egointent_comparisons", "Every pair of runs: overall", DECIMALS, unit="videos")
    note = (
        "Over steps of which both runs have all three ratings. Runs compare only where judge and prompts are the same."
    )
    return table and replace(table, notes=(*table.notes, note))
