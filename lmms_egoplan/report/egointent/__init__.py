"""Report EgoIntent: tables by field, interval and scenario, heat maps, and a gallery of steps."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from statistics import fmean
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.egointent.frames import step_frames, thin
from lmms_egoplan.benchmarks.egointent.judge import GradedStep
from lmms_egoplan.benchmarks.egointent.prepare import SPLIT
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES, TITLES
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, GOALSTEP_STEPS
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.media.frames import read_video_frames
from lmms_egoplan.report.benchmark import BenchmarkReport, Spec, read_prepared
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Headline, Images, ShownAnswer, Verdict
from lmms_egoplan.report.egointent.answers import (
    OFFICIAL,
    SCORES,
    EgoIntentTask,
    fields_of,
    overall_of,
    read_graded,
)
from lmms_egoplan.report.egointent.heatmap import heatmap_figure
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key, differing
from lmms_egoplan.report.tables import (
    Column,
    Table,
    Value,
    interval_columns,
    name_of,
    number,
    scored,
    share,
    table_of_runs,
)
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS
from lmms_egoplan.stats.means import Mean

# Number of frames that the gallery shows.
_FRAMES = 12
# The gallery marks a step as right if the mean of its ratings is at least RIGHT, and as wrong if it
# is below WRONG.
RIGHT = 75
WRONG = 25
_TITLES = {"overall": "Overall", **TITLES, "indoor": "Indoor", "outdoor": "Outdoor"}

# Notes and columns of several tables.
_INTERVAL_NOTE = (
    "Low to high: 95 % interval by Wilson over videos, each with all of its steps. No "
    f"interval without samples or with fewer than {FEWEST_CLUSTERS} videos."
)
_PUBLISHED_NOTES = (
    (
        "The paper prints neither its prompt nor its judge's, and names the judge Qwen3 without a "
        "size. Scores are comparable only with the same steps, judge and versions of both prompts. "
        "They are not strictly comparable with the published ones."
    ),
    f"Published scores cover {OFFICIAL:,} steps.",
    _INTERVAL_NOTE,
    (
        "Coverage: fraction of the paper's steps that the score covers. Parsed: fraction of the "
        "fields, three per step, that were found in the replies; a missing field scores 0, as on "
        "the leaderboard of the benchmark's release. Judged: fraction of the found fields with a "
        "rating; fields without one count as neither right nor wrong. Truncated: fraction of the "
        "replies that the limit on new tokens ended, where known. Unverified: fraction of the "
        "steps whose references nobody has verified. Suspect: fraction of the found fields that "
        "look as if they rated themselves. Shown as: whether the model got the frames of a step as "
        "a video or as images (sec. 4.1: open models get videos, closed ones images)."
    ),
)
_PUBLISHED_COLUMNS = (
    *interval_columns("overall", decimals=2, label="(overall)"),
    Column("questions", "Steps"),
    Column("coverage", "Coverage %", decimals=1),
    Column("parsed", "Parsed %", decimals=1),
    Column("judged", "Judged %", decimals=1),
    Column("truncated", "Truncated %", decimals=1),
    Column("unverified", "Unverified %", decimals=1),
    Column("suspect", "Suspect %", decimals=1),
    Column("media", "Shown as"),
    Column("judge", "Judge"),
    Column("prompts", "Prompt, judge's prompt"),
)


class EgoIntentReport(BenchmarkReport[EgoIntentTask]):
    """EgoIntent's section of a report."""

    SPEC = Spec(
        name="egointent",
        title="EgoIntent",
        lead=(
            "Open questions about steps of procedures, seen up to just before their "
            "outcome: what is done, why, and what comes next. A judge model rates from "
            "0 to 100 how well each of the three answers agrees with the reference."
        ),
        metric="overall",
        decimals=2,
        measure="overall",
        clusters="videos",
        panel="median",
        compact_title="EgoIntent: score, 0 to 100",
        compact_main="overall",
        reference=("table3", ""),
        caveat="the paper prints neither its prompts nor the size of its judge",
    )

    def read(self, runs: Sequence[Run]) -> list[EgoIntentTask]:
        """Return the task and its variants."""
        return list(read_graded(runs))

    def mean_over(self, answers: Sequence[Answer]) -> Mean:
        """Return the overall score: missing fields score 0, unjudged fields are ignored."""
        return overall_of(answers)

    def headline(self, task: EgoIntentTask) -> Headline:
        """Add "Goal-Step steps" to the name of the metric if the task is about them."""
        headline = super().headline(task)
        if not task.is_goalstep:
            return headline
        return replace(headline, metric=f"overall ({GOALSTEP_STEPS})")

    def tables(self) -> Iterator[Table | None]:
        """Yield all tables.

        They are the published tables with the runs, scores with intervals, scores by scenario, and
        pairs of runs.
        """
        yield _table3(self.tasks)
        yield _leaderboard([run for run in self.tasks if run.is_release])
        yield _scores_table(self.tasks)
        # These tables contain the numbers of the heat maps, and also runs without samples.
        yield _scenarios_table([run for run in self.tasks if not run.is_goalstep])
        yield _categories_table([run for run in self.tasks if run.is_goalstep])
        yield self._pairs_of_runs()
        yield condition_table(self)

    def _pairs_of_runs(self) -> Table | None:
        """Compare every pair of runs."""
        notes = [
            (
                "Uses the steps for which both runs have all three ratings. Runs are "
                "comparable only with the same judge and prompts."
            ),
        ]
        return self.pairs(self.tasks, "Every pair of runs: overall", notes)

    @cached_property
    def _kinds(self) -> list[list[EgoIntentTask]]:
        """Runs with samples, grouped by kind of step: the benchmark's, then Goal-Step's.

        Empty groups are omitted.
        """
        with_samples = [run for run in self.tasks if run.answers]
        kinds = []
        for is_goalstep in (False, True):
            kinds.append([run for run in with_samples if run.is_goalstep is is_goalstep])
        return [kind for kind in kinds if kind]

    def figures(self) -> Iterator[Figure | None]:
        """Yield heat maps as in Fig. 7 of the paper, and scores by condition."""
        for runs in self._kinds:
            yield heatmap_figure(runs)
        yield condition_figure(self)

    def terminal_notes(self) -> tuple[str, ...]:
        """Explain the score of a missing field."""
        return ("A field that is missing in a reply scores 0 and is not judged.",)

    def compact_tasks(self) -> list[EgoIntentTask]:
        """Return tasks about the benchmark's steps before those about Goal-Step's."""
        return sorted(self.tasks, key=lambda run: run.is_goalstep)

    def heading(self, task: EgoIntentTask) -> str:
        """Add "Goal-Step steps" to the heading of such a task."""
        return f"{task.task} ({GOALSTEP_STEPS})" if task.is_goalstep else task.task

    def cells(self, task: EgoIntentTask, block: Sequence[EgoIntentTask], /) -> dict[str, str]:
        """Return scores, 0 to 100, overall and by field."""
        is_release = any(run.is_release for run in block)
        fields = [RELEASE_NAMES[name] if is_release else name for name in FIELDS]
        decimals = self.SPEC.decimals
        cells = {"overall": scored(task.main.value, decimals, task.coverage)}
        for name in (*fields, *ENVIRONMENTS):
            cells[name] = number(task.number(name), decimals)
        return {
            **cells,
            "steps": number(task.number("num_steps")),
            "parsed": share(task.number("parsed")),
            "judged": share(task.number("judge_coverage")),
            "truncated": task.truncated_text,
            "suspect": share(task.number("suspect")),
            "unverified": share(task.number("unverified")),
            "shown as": name_of(task.text("media")),
            "judge": "not asked" if task.number("parsed") == 0 else name_of(task.judge),
        }

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared step, or the step that lm-eval logged."""
        step_id, video = key
        first = answers[0].record
        groups = answers[0].groups
        doc: Mapping[str, Any] | None = self._prepared[0].get(key)
        if not doc:
            doc = next((answer.doc for answer in answers if answer.doc), None)
        when = f", {doc['start_sec']:.2f} to {doc['end_sec']:.2f} s" if doc else ""
        num_frames = max(answer.record.graded.frames_shown for answer in answers)
        return {
            "question": (
                f"Step {step_id} (video {video}{when}): what is done, why, and what comes next?"
            ),
            "facts": {
                "category" if first.is_goalstep else "scenario": groups["group"],
                "environment": groups["environment"],
                "references": "unverified" if first.unverified else "verified",
            },
            "references": {TITLES[field]: doc[field] for field in FIELDS} if doc else {},
            "images": _frames(doc, num_frames or _FRAMES),
        }

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the answer with the mean rating, each field's rating, and the judge's replies."""
        step = answer.record.graded
        mean = answer.scores["overall"]
        rating_parts = ["not judged" if mean is None else f"{mean:.1f} of 100"]
        if step.truncated:
            rating_parts.append("cut off")
        if step.suspect:
            rating_parts.append("suspect")
        judgements = [f"{TITLES[field]}: {text}" for field, text in step.judgements.items() if text]
        return ShownAnswer(
            _verdict(mean),
            "\n".join(_field_line(step, field) for field in FIELDS),
            rating="; ".join(rating_parts),
            judgement="\n".join(judgements) or None,
            reply=step.reply or None,
        )

    @cached_property
    def _prepared(self) -> tuple[Mapping[Key, dict[str, Any]], str | None]:
        return read_prepared(_read_rows)

    def flaws(self, task: EgoIntentTask) -> Iterator[str]:
        """Yield problems of the annotation file, ratings and samples."""
        yield from _flaws_of_steps(task)
        judged = task.number("judge_coverage")
        if task.number("overall") is None:
            yield (
                "no overall score, since one of the fields was found in replies but never judged."
            )
        elif judged is not None and judged < 1:
            yield (
                f"{100 * (1 - judged):.1f} % of the found fields are not judged; they "
                "count as neither right nor wrong."
            )
        if task.number("parsed") == 0:
            yield "no reply contains any of the three fields."
        if task.is_by_demo:
            yield "the demo judge only compares words; its ratings are meaningless."
        if task.answers is None:
            yield (
                "no samples, so there are no intervals, heat map, comparisons or gallery entries."
            )
        unverified = task.percent("unverified")
        if unverified:
            yield f"nobody has verified the references of {unverified:.1f} % of the steps."

    def gaps(self) -> Iterator[str]:
        """Yield differences between runs, and gaps in the prepared data.

        Runs may differ in visual input, steps, judges and prompts.
        """
        yield from _differing_media(self.tasks)
        for runs in self._kinds:
            for what in ("judges", "prompts", "judge's prompts"):
                differences = differing(
                    {run.name: run.conditions[what] or "unknown" for run in runs}
                )
                if differences:
                    yield f"Different {what}, so scores are not comparable: {differences}."
            yield from _different_steps(runs)
        prepared, problem = self._prepared
        logged: set[Key] = set()
        for run in self.tasks:
            logged.update(key for key, step in (run.answers or {}).items() if step.doc)
        bare_steps = self.answers.keys() - prepared.keys() - logged
        if bare_steps:
            why = problem or f"they are not in the prepared data, for example {min(bare_steps)[0]}"
            yield (
                f"{len(bare_steps):,} steps have neither references nor images in the "
                f"gallery: {why}"
            )


def _table3(graded: Sequence[EgoIntentTask]) -> Table:
    """Put runs above Table 3 of the paper."""
    return published_with_runs(
        "Semantic consistency, next to Table 3 of the paper",
        load_table("egointent", "table3"),
        _published_rows(graded, {name: name for name in SCORES}),
        _PUBLISHED_COLUMNS,
        _PUBLISHED_NOTES,
    )


def _leaderboard(graded: Sequence[EgoIntentTask]) -> Table:
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


def _scores_table(graded: Sequence[EgoIntentTask]) -> Table:
    """Build the table of each score of each run with its interval, steps, videos and ratings."""
    columns = (
        Column("score_of", "Score"),
        Column("model", "Run"),
        Column("score", "Value", decimals=2),
        *interval_columns("score", decimals=2),
        Column("steps", "Steps"),
        Column("videos", "Videos"),
        Column("rated", "Ratings"),
    )
    notes = [
        (
            "Overall is the mean of the three fields' scores. Indoor and outdoor are the "
            "overall score of those steps."
        ),
        "Ratings: number of fields in the score, including missing fields, which score 0.",
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


def _scenarios_table(graded: Sequence[EgoIntentTask]) -> Table | None:
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


def _categories_table(graded: Sequence[EgoIntentTask]) -> Table | None:
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
    return [Column(run.name, run.name, EgoIntentReport.SPEC.decimals) for run in graded]


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


def _flaws_of_steps(task: EgoIntentTask) -> Iterator[str]:
    """Yield differences of a task's steps from the benchmark's."""
    size = task.count("split_size")
    asked = task.count("num_steps")
    if task.is_goalstep:
        yield (
            "steps, labels and cuts are Goal-Step's, not EgoIntent's; the published "
            "scores are not comparable."
        )
    elif size is not None and size != OFFICIAL:
        yield (
            f"the annotation file has {size:,} steps, the paper {OFFICIAL:,}; the "
            "published scores are not comparable."
        )
    if size is not None and asked is not None and asked < size:
        yield f"the model was asked about {asked:,} of the annotation file's {size:,} steps."


def _differing_media(graded: Iterable[EgoIntentTask]) -> Iterator[str]:
    """Yield the visual input of each run if the runs differ in it."""
    media = {}
    for run in graded:
        form = run.text("media")
        if form:
            media[run.name] = form
    if len({form.partition(" ")[0] for form in media.values()}) > 1:
        yield (
            "Steps were shown in different forms, as for open and closed models in the "
            f"paper: {differing(media)}."
        )


def _different_steps(graded: Sequence[EgoIntentTask]) -> Iterator[str]:
    """Yield the number of steps of each run if the runs differ in their steps."""
    asked = {run.name: set(run.answers or ()) for run in graded}
    steps = list(asked.values())
    if all(keys == steps[0] for keys in steps):
        return
    count = len(set.intersection(*steps))
    counts = "; ".join(f"{name}: {len(keys):,}" for name, keys in asked.items())
    yield (
        f"All runs over the same data share {count:,} steps; some runs were asked about "
        f"more: {counts}."
    )


def _verdict(mean: float | None) -> Verdict:
    """Return the gallery's mark for the mean of a step's ratings."""
    if mean is None:
        return "unscored"
    if mean >= RIGHT:
        return "right"
    return "wrong" if mean < WRONG else "partly"


def _field_line(step: GradedStep, field: str) -> str:
    rating = step.ratings[field]
    judgement = f"not judged: {step.errors[field]}" if rating is None else f"{rating:g}"
    return f"{TITLES[field]}: {step.fields.get(field, 'missing')} [{judgement}]"


def _read_rows() -> dict[Key, dict[str, Any]]:
    """Read the prepared steps."""
    return {(row["step_id"], row["video_id"]): row for row in EGOINTENT.load(SPLIT)}


def _frames(doc: Mapping[str, Any] | None, count: int) -> Images | None:
    """Return a reader of a step's frames; None if the video is missing.

    Args:
        doc: The prepared step; None if it is missing.
        count: Number of frames that the model was shown.
    """
    # Path.is_file raises if a folder in the path is not accessible.
    if doc is None or not os.path.isfile(doc["video_path"]):  # noqa: PTH113
        return None
    return partial(read_frames, doc["video_path"], doc["start_sec"], doc["end_sec"], count)


def read_frames(video: str, start_sec: float, end_sec: float, count: int) -> list[Image.Image]:
    """Read the frames that the model was shown, at most as many as the gallery shows."""
    frames = thin(step_frames(video, start_sec, end_sec), max(1, count))
    return read_video_frames(video, thin(frames, _FRAMES))
