"""EgoIntent's tables: scores next to the paper's and the leaderboard's, and by scenario."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from lmms_egoplan.benchmarks.egointent.prompts import RELEASE_NAMES, TITLES
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS
from lmms_egoplan.report.egointent.answers import OFFICIAL, SCORES, EgoIntentTask, fields_of
from lmms_egoplan.report.egointent.gallery import RIGHT, WRONG
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS

_TITLES = {"overall": "Overall", **TITLES, "indoor": "Indoor", "outdoor": "Outdoor"}
# Notes and columns of several tables.
_INTERVAL_NOTE = (
    "Low to high: 95 % interval by Wilson over videos, each with all of its steps. None without "
    f"samples or with fewer than {FEWEST_CLUSTERS} videos."
)
_PUBLISHED_NOTES = (
    (
        "The paper prints neither its prompt nor its judge's, and names the judge Qwen3 without a "
        f"size, so no score is strictly comparable with the published ones, over {OFFICIAL:,} "
        "steps."
    ),
    _INTERVAL_NOTE,
)
_PUBLISHED_COLUMNS = (
    *interval_columns("overall", decimals=2, label="(overall)"),
    Column("questions", "Steps", is_condition=True),
    Column(
        "coverage",
        "Coverage %",
        decimals=1,
        note="Coverage: share of the paper's steps that the score covers.",
        is_condition=True,
    ),
    Column(
        "parsed",
        "Parsed %",
        decimals=1,
        note=(
            "Parsed: share of the fields, three per step, that were found in the replies. A "
            "missing field scores 0, as on the leaderboard of the benchmark's release."
        ),
        is_condition=True,
    ),
    Column(
        "judged",
        "Judged %",
        decimals=1,
        note=(
            "Judged: share of the found fields with a rating. Fields without one count as neither "
            "right nor wrong."
        ),
        is_condition=True,
    ),
    Column(
        "truncated",
        "Truncated %",
        decimals=1,
        note="Truncated: share of the replies that the limit on new tokens ended, if known.",
        is_condition=True,
    ),
    Column(
        "unverified",
        "Unverified %",
        decimals=1,
        note="Unverified: share of the steps whose references nobody has verified.",
        is_condition=True,
    ),
    Column(
        "suspect",
        "Suspect %",
        decimals=1,
        note="Suspect: share of the found fields that look as if they rated themselves.",
        is_condition=True,
    ),
    Column(
        "media",
        "Shown as",
        note=(
            "Shown as: the frames of a step as a video or as images. In sec. 4.1, open models get "
            "videos, closed ones images."
        ),
        is_condition=True,
    ),
    Column("judge", "Judge", is_condition=True),
    Column("prompts", "Versions of the prompt and the judge's prompt", is_condition=True),
)


def table3(graded: Sequence[EgoIntentTask]) -> Table:
    """Put runs above Table 3 of the paper."""
    return published_with_runs(
        "Semantic consistency, next to Table 3 of the paper",
        load_table("egointent", "table3"),
        _published_rows(graded, {name: name for name in SCORES}),
        _PUBLISHED_COLUMNS,
        _PUBLISHED_NOTES,
    )


def leaderboard(graded: Sequence[EgoIntentTask]) -> Table:
    """Put runs of the release's task above the leaderboard of the release."""
    return published_with_runs(
        "Semantic consistency and diagnostics, next to the leaderboard of August 2026",
        load_table("egointent", "leaderboard"),
        _published_rows(graded, {"overall": "overall", **RELEASE_NAMES}),
        _PUBLISHED_COLUMNS,
        _PUBLISHED_NOTES,
    )


def _published_rows(graded: Sequence[EgoIntentTask], columns: Mapping[str, str]) -> list[OwnRow]:
    """Return the rows of runs for a published table.

    Args:
        graded: The runs.
        columns: The table's column for each score.
    """
    rows: list[OwnRow] = []
    for run in graded:
        row: dict[str, Value] = {"model": run.name, "apart": "; ".join(run.objections)}
        for name, column in columns.items():
            row[column] = run.means[name].value
        rows.append({**row, **run.main.cells("overall"), **run.shares()})
    return rows


def scores_table(graded: Sequence[EgoIntentTask]) -> Table:
    """Build the table of each score of each run with its interval, steps, videos and ratings."""
    columns = (
        Column("score_of", "Score"),
        Column("model", "Run"),
        Column("score", "Value", decimals=2),
        *interval_columns("score", decimals=2),
        Column("steps", "Steps"),
        Column("videos", "Videos"),
        Column(
            "rated",
            "Ratings",
            note=(
                "Ratings: number of fields in the score, including missing fields, which score 0."
            ),
        ),
    )
    notes = [
        (
            "Overall is the mean of the three fields' scores. Indoor and outdoor are the "
            "overall score of those steps."
        ),
        _INTERVAL_NOTE,
        (
            "The gallery marks a step as right if the mean of its three ratings is at "
            f"least {RIGHT}, and as wrong if it is below {WRONG}."
        ),
    ]
    rows: list[dict[str, Value]] = []
    for name in SCORES:
        for run in graded:
            mean = run.means[name]
            if mean.questions == 0:
                continue
            row: dict[str, Value] = {
                "score_of": _TITLES[name],
                "model": run.name,
                "steps": mean.questions,
                "videos": mean.clusters,
                "rated": _num_ratings(run, name),
            }
            rows.append({**row, **mean.cells("score")})
    return table_of_runs("egointent_scores", "Scores with intervals", columns, rows, notes)


def _num_ratings(run: EgoIntentTask, score: str) -> int | None:
    """Return the number of ratings in a score; None without samples."""
    if run.answers is None:
        return None
    count = 0
    for step in run.steps_of(score):
        ratings = step.record.graded.ratings
        count += sum(ratings[field] is not None for field in fields_of(score))
    return count


def scenarios_table(graded: Sequence[EgoIntentTask]) -> Table | None:
    """Build the table of overall scores by scenario; None without runs."""
    if not graded:
        return None
    notes = [
        (
            "Overall score of the steps in each scenario. The scenario with the lowest "
            "average over the runs comes first."
        ),
        "Several numbers of steps, such as 12 / 15: the runs differ.",
    ]
    return table_of_runs(
        "egointent_scenarios",
        "Overall score by scenario",
        (Column("scenario", "Scenario"), Column("steps", "Steps"), *_run_columns(graded)),
        _group_rows(graded, "scenario"),
        notes,
    )


def categories_table(graded: Sequence[EgoIntentTask]) -> Table | None:
    """Build the table of Goal-Step's steps, by the category of their goal; None without runs."""
    if not graded:
        return None
    notes = [
        (
            "Overall score of the steps in each category. The category with the lowest "
            "average over the runs comes first."
        ),
        "Several numbers of steps, such as 12 / 15: the runs differ.",
        (
            "The category is that of the video's goal in Goal-Step; the paper's scenarios "
            "are places."
        ),
    ]
    return table_of_runs(
        "egointent_categories",
        "Goal-Step steps: overall score by category",
        (Column("category", "Category"), Column("steps", GOALSTEP_STEPS), *_run_columns(graded)),
        _group_rows(graded, "category"),
        notes,
    )


def _run_columns(graded: Sequence[EgoIntentTask]) -> list[Column]:
    """Return one column of scores per run."""
    return [Column(run.name, run.name, decimals=2) for run in graded]


def _group_rows(graded: Sequence[EgoIntentTask], by: str) -> list[dict[str, Value]]:
    """Return the runs' scores by group, the group with the lowest average first.

    Args:
        graded: The runs.
        by: The metric with scores by group, ``scenario`` or ``category``.
    """
    scores: dict[str, Mapping[str, float]] = {}
    groups: set[str] = set()
    for run in graded:
        metric = run.task_run.metrics.get(by)
        scores[run.name] = metric if isinstance(metric, Mapping) else {}
        groups.update(scores[run.name])
    averages: dict[str, float] = {}
    rows: dict[str, dict[str, Value]] = {}
    for group in groups:
        valid_scores: dict[str, float] = {}
        for name, run_scores in scores.items():
            score = run_scores.get(group)
            if score is not None and not math.isnan(score):
                valid_scores[name] = score
        averages[group] = fmean(valid_scores.values()) if valid_scores else math.inf
        rows[group] = {by: group, "steps": _num_steps(graded, group), **valid_scores}
    return [rows[group] for group in sorted(groups, key=lambda group: (averages[group], group))]


def _num_steps(graded: Sequence[EgoIntentTask], group: str) -> int | str | None:
    """Return the number of a group's steps, or the numbers if runs differ; None without samples."""
    counts: set[int] = set()
    for run in graded:
        if run.answers:
            counts.add(sum(step.groups["group"] == group for step in run.answers.values()))
    if len(counts) == 1:
        return counts.pop()
    return " / ".join(map(str, sorted(counts))) or None
