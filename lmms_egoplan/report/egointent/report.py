"""EgoIntent's part of a report: its facts, and the order of its tables and figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, GOALSTEP_STEPS
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Headline, ShownAnswer
from lmms_egoplan.report.egointent.answers import EgoIntentTask, overall_of, read_graded
from lmms_egoplan.report.egointent.gallery import question_fields, read_rows, shown_answer
from lmms_egoplan.report.egointent.heatmap import heatmap_figure
from lmms_egoplan.report.egointent.remarks import by_kind_of_step, flaws, gaps
from lmms_egoplan.report.egointent.tables import (
    categories_table,
    leaderboard,
    scenarios_table,
    scores_table,
    table3,
)
from lmms_egoplan.report.prepared import read_prepared
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import Table, name_of, number, scored, share
from lmms_egoplan.stats.means import Mean


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
        result_task="egointent",
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
        yield table3(self.tasks)
        yield leaderboard([run for run in self.tasks if run.is_release])
        yield scores_table(self.tasks)
        # This table contains the numbers of the heat map, and also runs without samples.
        yield scenarios_table([run for run in self.tasks if not run.is_goalstep])
        yield categories_table([run for run in self.tasks if run.is_goalstep])
        yield self._pairs_of_runs()
        yield condition_table(self)

    def _pairs_of_runs(self) -> Table | None:
        """Compare every pair of runs."""
        notes = [
            ("Only steps for which both runs have all three ratings."),
        ]
        return self.pairs(self.tasks, "Every pair of runs: overall", notes)

    @cached_property
    def _kinds(self) -> list[list[EgoIntentTask]]:
        return by_kind_of_step(self.tasks)

    def figures(self) -> Iterator[Figure | None]:
        """Yield the heat map as in Fig. 7 of the paper, and scores by condition."""
        runs = [run for run in self.tasks if run.answers and not run.is_goalstep]
        if runs:
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
        return question_fields(key, answers, self._prepared[0])

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the answer with the mean rating, each field's rating, and the judge's replies."""
        return shown_answer(answer)

    def flaws(self, task: EgoIntentTask) -> Iterator[str]:
        """Yield problems of the annotation file, ratings and samples."""
        return flaws(task)

    def gaps(self) -> Iterator[str]:
        """Yield differences between runs, and gaps in the prepared data."""
        return gaps(self.tasks, self._kinds, *self._prepared)

    @cached_property
    def _prepared(self) -> tuple[Mapping[Key, dict[str, Any]], str | None]:
        return read_prepared(read_rows)
