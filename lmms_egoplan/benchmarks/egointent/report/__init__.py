"""Report EgoIntent: tables by field, interval and scenario, heat maps, and a gallery of steps."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.conditions import condition_figure, condition_table
from lmms_egoplan.benchmarks.egointent.prepare import SPLIT
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, RELEASE_NAMES, TITLES
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.report.answers import (
    OFFICIAL,
    SCORES,
    Graded,
    fields_of,
    judged_samples,
    overall_of,
    read_graded,
)
from lmms_egoplan.benchmarks.egointent.report.heatmap import heatmap_figure
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep
from lmms_egoplan.benchmarks.egointent.visuals import step_frames, thin
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.media.frames import read_video_frames
from lmms_egoplan.report.benchmark import BenchmarkReport, Judged, read_prepared, read_spec
from lmms_egoplan.report.document import Figure, Headline, Images, ShownAnswer, Verdict
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key, Mean, differing
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS
from lmms_egoplan.report.tables import (
    Column,
    Table,
    Value,
    name_of,
    number,
    read_notes,
    scored,
    share,
)

# Number of frames that the gallery shows.
_FRAMES = 12
# The gallery marks a step as right if the mean of its ratings is at least RIGHT, and as wrong if it
# is below WRONG.
RIGHT, WRONG = 75, 25
note = read_notes(
    __file__, right=RIGHT, wrong=WRONG, steps=OFFICIAL, fewest_clusters=FEWEST_CLUSTERS
)
_TITLES = {"overall": "Overall", **TITLES, "indoor": "Indoor", "outdoor": "Outdoor"}


class EgoIntentReport(BenchmarkReport[Graded]):
    """EgoIntent's section of a report."""

    SPEC = read_spec(__file__, "egointent", note)

    def read(self, runs: Sequence[Run]) -> list[Graded]:
        """Return the task and its variants."""
        return list(read_graded(runs))

    @classmethod
    def judged_samples(cls, path: Path) -> Iterator[Judged]:
        """Yield the samples of both versions of the task."""
        return judged_samples(path)

    def mean_over(self, answers: Sequence[Answer]) -> Mean:
        """Return the overall score: missing fields score 0, unjudged fields are ignored."""
        return overall_of(answers)

    def headline(self, task: Graded) -> Headline:
        """Add "Goal-Step steps" to the name of the metric if the task is about them."""
        headline = super().headline(task)
        return (
            replace(headline, metric=f"overall ({GOALSTEP_STEPS})")
            if task.is_goalstep
            else headline
        )

    def tables(self) -> Iterator[Table | None]:
        """Yield the published tables with the runs, scores with intervals, scores by scenario, and
        pairs of runs.
        """
        yield self._with_published("table3", self.tasks, {name: name for name in SCORES})
        of_release = [run for run in self.tasks if run.is_release]
        yield self._with_published(
            "leaderboard", of_release, {"overall": "overall", **RELEASE_NAMES}
        )
        yield self._score_table()
        # These tables contain the numbers of the heat maps, and also runs without samples.
        for kind in (False, True):
            if runs := [run for run in self.tasks if run.is_goalstep is kind]:
                yield self._groups(runs, is_goalstep=kind)
        yield self.pairs(self.tasks)
        yield condition_table(self)

    def _with_published(
        self, table: str, runs: Sequence[Graded], columns: Mapping[str, str]
    ) -> Table:
        """Return a published table with the runs added as rows.

        Args:
            table: Name of the published table.
            runs: The runs.
            columns: The table's column for each score.
        """
        rows = []
        for run in runs:
            scores = {column: run.means[name].value for name, column in columns.items()}
            cells: dict[str, Value] = {"model": run.name, "apart": "; ".join(run.objections)}
            rows.append(cells | scores | run.main.cells("overall") | run.shares())
        return self.published(table, rows)

    def _score_table(self) -> Table:
        """Return each score of each run with its interval, steps, videos and ratings."""
        rows: list[dict[str, Value]] = []
        for name in SCORES:
            for run in self.tasks:
                mean, rated = run.means[name], None
                if run.answers is not None:
                    ratings = [
                        step.record.graded.ratings[field]
                        for step in run.of(name)
                        for field in fields_of(name)
                    ]
                    rated = sum(rating is not None for rating in ratings)
                if mean.questions != 0:
                    counts = {"steps": mean.questions, "videos": mean.clusters, "rated": rated}
                    rows.append(
                        {
                            "score_of": _TITLES[name],
                            "model": run.name,
                            **mean.cells("score"),
                            **counts,
                        }
                    )
        return self.table("scores", rows)

    def _groups(self, graded: Sequence[Graded], *, is_goalstep: bool) -> Table:
        name, names = ("category", "categories") if is_goalstep else ("scenario", "scenarios")
        scores = {run.name: _by_group(run, name) for run in graded}
        rows: list[tuple[float, str, dict[str, Value]]] = []
        for group in {group for of_run in scores.values() for group in of_run}:
            numbers = {run: of_run.get(group) for run, of_run in scores.items()}
            valid_scores = {
                run: score
                for run, score in numbers.items()
                if score is not None and not math.isnan(score)
            }
            steps = {
                sum(x.groups["group"] == group for x in run.answers.values())
                for run in graded
                if run.answers
            }
            counts = steps.pop() if len(steps) == 1 else " / ".join(map(str, sorted(steps))) or None
            rows.append(
                (
                    fmean([*valid_scores.values()] or [math.inf]),
                    group,
                    {name: group, "steps": counts, **valid_scores},
                )
            )
        columns = (
            Column(name, name.capitalize()),
            Column("steps", GOALSTEP_STEPS if is_goalstep else "Steps"),
            *(Column(run.name, run.name, self.SPEC.decimals) for run in graded),
        )
        ordered = [row for *_, row in sorted(rows, key=lambda row: row[:2])]
        return self.table(names, ordered, columns, group=name)

    @cached_property
    def _kinds(self) -> list[list[Graded]]:
        """Runs with samples, grouped by kind of step: the benchmark's, then Goal-Step's.

        Empty groups are omitted.
        """
        kinds = [
            [run for run in self.tasks if run.answers and run.is_goalstep is kind]
            for kind in (False, True)
        ]
        return [kind for kind in kinds if kind]

    def figures(self) -> Iterator[Figure | None]:
        """Yield heat maps as in Fig. 7 of the paper, and scores by condition."""
        yield from map(heatmap_figure, self._kinds)
        yield condition_figure(self)

    def compact_tasks(self) -> list[Graded]:
        """Return tasks about the benchmark's steps before those about Goal-Step's."""
        return sorted(self.tasks, key=lambda run: run.is_goalstep)

    def heading(self, task: Graded) -> str:
        """Add "Goal-Step steps" to the heading of such a task."""
        return f"{task.task} ({GOALSTEP_STEPS})" if task.is_goalstep else task.task

    def cells(self, task: Graded, block: Sequence[Graded], /) -> dict[str, str]:
        """Return scores, 0 to 100, overall and by field."""
        is_release = any(run.is_release for run in block)
        fields = [RELEASE_NAMES[name] if is_release else name for name in FIELDS]
        decimals = self.SPEC.decimals
        return {
            "overall": scored(task.main.value, decimals, task.coverage),
            **{name: number(task.number(name), decimals) for name in (*fields, *ENVIRONMENTS)},
            "steps": number(task.number("num_steps")),
            "parsed": share(task.number("parsed")),
            "judged": share(task.number("judge_coverage")),
            "truncated": task.truncated_text,
            **{name: share(task.number(name)) for name in ("suspect", "unverified")},
            "shown as": name_of(task.text("media")),
            "judge": "not asked" if task.number("parsed") == 0 else name_of(task.judge),
        }

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared step, or the step that lm-eval logged."""
        step_id, video = key
        first, groups = answers[0].record, answers[0].groups
        doc = self._prepared[0].get(key) or next(
            (answer.doc for answer in answers if answer.doc), None
        )
        when = f", {doc['start_sec']:.2f} to {doc['end_sec']:.2f} s" if doc else ""
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
            "images": _frames(
                doc, max(answer.record.graded.frames_shown for answer in answers) or _FRAMES
            ),
        }

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the answer with the mean rating, each field's rating, and the judge's replies."""
        step, mean = answer.record.graded, answer.scores["overall"]
        verdict: Verdict = "unscored"
        if mean is not None:
            verdict = "right" if mean >= RIGHT else "wrong" if mean < WRONG else "partly"
        rating_parts = [f"{mean:.1f} of 100" if mean is not None else "not judged"]
        rating_parts += ["cut off"] * bool(step.truncated) + ["suspect"] * bool(step.suspect)
        judgements = [f"{TITLES[field]}: {text}" for field, text in step.judgements.items() if text]
        text = "\n".join(_field_line(step, field) for field in FIELDS)
        return ShownAnswer(
            verdict,
            text,
            rating="; ".join(rating_parts),
            judgement="\n".join(judgements) or None,
            reply=step.reply or None,
        )

    @cached_property
    def _prepared(self) -> tuple[Mapping[Key, dict[str, Any]], str | None]:
        return read_prepared(
            lambda: {(row["step_id"], row["video_id"]): row for row in EGOINTENT.load(SPLIT)}
        )

    def flaws(self, task: Graded) -> Iterator[str]:
        """Yield problems of the annotation file, ratings and samples."""
        size, asked, judged = (
            task.count("split_size"),
            task.count("num_steps"),
            task.number("judge_coverage"),
        )
        if task.is_goalstep:
            yield note("goalstep")
        elif size is not None and size != OFFICIAL:
            yield note("other_size", size=size, official=OFFICIAL)
        if size is not None and asked is not None and asked < size:
            yield note("not_all", asked=asked, size=size)
        if task.number("overall") is None:
            yield note("no_overall")
        elif judged is not None and judged < 1:
            yield note("unjudged", percent=100 * (1 - judged))
        if task.number("parsed") == 0:
            yield note("nothing_parsed")
        if task.is_by_demo:
            yield note("demo")
        if task.answers is None:
            yield note("no_samples")
        if unverified := task.percent("unverified"):
            yield note("unverified", percent=unverified)

    def gaps(self) -> Iterator[str]:
        """Yield differences in visual input, steps, judges and prompts, and gaps in the prepared
        data.
        """
        media = {run.name: form for run in self.tasks if (form := run.text("media"))}
        if len({form.partition(" ")[0] for form in media.values()}) > 1:
            yield note("different_media", differences=differing(media))
        for runs in self._kinds:
            for what in ("judges", "prompts", "judge's prompts"):
                if differences := differing(
                    {run.name: run.conditions[what] or "unknown" for run in runs}
                ):
                    yield note("differing", what=what, differences=differences)
            asked = [(run.answers or {}).keys() for run in runs]
            if any(keys != asked[0] for keys in asked):
                counts = "; ".join(
                    f"{run.name}: {len(keys):,}" for run, keys in zip(runs, asked, strict=True)
                )
                yield note(
                    "different_steps", count=len(set.intersection(*map(set, asked))), counts=counts
                )
        prepared, problem = self._prepared
        logged = {
            key for run in self.tasks for key, step in (run.answers or {}).items() if step.doc
        }
        if bare_steps := self.answers.keys() - prepared.keys() - logged:
            why = problem or note("not_prepared", example=min(bare_steps)[0])
            yield note("bare", count=len(bare_steps), why=why)


def _by_group(run: Graded, name: str) -> Mapping[str, float]:
    scores = run.task_run.metrics.get(name)
    return scores if isinstance(scores, Mapping) else {}


def _field_line(step: GradedStep, field: str) -> str:
    rating = step.ratings[field]
    judgement = f"not judged: {step.errors[field]}" if rating is None else f"{rating:g}"
    return f"{TITLES[field]}: {step.fields.get(field, 'missing')} [{judgement}]"


def _frames(doc: Mapping[str, Any] | None, count: int) -> Images | None:
    """Return a reader of the frames that a model with `count` frames was shown; None if the video
    is missing.
    """
    # Path.is_file raises if a folder in the path is not accessible.
    if doc is None or not os.path.isfile(doc["video_path"]):  # noqa: PTH113
        return None
    return partial(read_frames, doc["video_path"], doc["start_sec"], doc["end_sec"], count)


def read_frames(video: str, start_sec: float, end_sec: float, count: int) -> list[Image.Image]:
    """Read the frames that the model was shown, at most as many as the gallery shows."""
    return read_video_frames(
        video, thin(thin(step_frames(video, start_sec, end_sec), max(1, count)), _FRAMES)
    )
