"""ActPlan-1K's part of a report: its facts, and the order of its tables and figures."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from lmms_egoplan.benchmarks.actplan.classifier import NO_CLASSIFIER
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, VERDICTS
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.report.actplan import marks
from lmms_egoplan.report.actplan.answers import MEASURES, Planned, answer_of
from lmms_egoplan.report.actplan.error_judge import JudgedPlan
from lmms_egoplan.report.actplan.figures import (
    by_activity_type_figure,
    by_length_figure,
    by_setting_figure,
    correct_by_length_figure,
)
from lmms_egoplan.report.actplan.gallery import question_fields, read_rows, shown_answer
from lmms_egoplan.report.actplan.published_tables import (
    ablation_runs,
    table3,
    table4,
    table5,
    table6,
    table7,
)
from lmms_egoplan.report.actplan.remarks import flaws, gaps
from lmms_egoplan.report.actplan.tables import (
    by_activity_type_table,
    by_length_table,
    by_setting_table,
    errors_agreement_table,
    errors_table,
    people_by_length_table,
    scores_table,
)
from lmms_egoplan.report.answers import read_tasks
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Images, PeoplesRating, ShownAnswer
from lmms_egoplan.report.prepared import read_prepared
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import Table, name_of, number, scored, share

# Scores in the compact table; without a remark, against gold plan 1.
_SCORES = (
    "lcs_norm",
    "lcs_norm_gold_2",
    "lcs_norm_best",
    "lcs",
    "lcs_norm_parsed",
    "lcs_parsed",
    "form_validity",
    "plan_length",
)


class ActPlanReport(BenchmarkReport[Planned]):
    """ActPlan-1K's section of a report."""

    SPEC = Spec(
        name="actplan",
        title="ActPlan-1K",
        lead=(
            "Models write plans for household activities, one action(object) per step, "
            "from a task description and views of the home. Plans are compared with "
            "gold plans by the longest common subsequence (LCS) of their steps. If a "
            "run has a classifier, it also calls each plan correct or wrong."
        ),
        metric="normalised LCS",
        result_task="actplan",
        decimals=3,
        measure="lcs_norm",
        clusters="activities",
        unit="",
        top=1,
        compact_title="ActPlan-1K: plans",
        compact_main="Norm. LCS",
        reference=("table4", "norm_lcs"),
        caveat=(
            "the published score is against the gold plan that was probably written "
            "from this model's plan"
        ),
    )

    def read(self, runs: Sequence[Run]) -> list[Planned]:
        """Read the tasks of all runs."""
        return list(read_tasks(Planned, runs, "actplan", "actplan", answer_of))

    def further_findings(self) -> Iterator[str]:
        """Name the runs whose plans no classifier judged."""
        runs = [
            run.name
            for run in self.tasks
            if run.number("bleurt_correct") is None and not run.is_demo
        ]
        if runs:
            yield f"Classifier of ActPlan-1K's plans for {', '.join(runs)}: {NO_CLASSIFIER}."

    def terminal_notes(self) -> tuple[str, ...]:
        """Explain LCS."""
        return (
            (
                "LCS: longest common subsequence with gold plan 1 unless stated otherwise, "
                "in steps. Norm.: LCS divided by the longer plan's length. Each gold plan "
                "favours one of the paper's models."
            ),
        )

    def labels(self, task: Planned, answer: Answer) -> Mapping[str, str]:
        """Return people's verdicts on the same plan, and the types of errors that they marked."""
        plan = self._labelled_plan(task, answer)
        if plan is None:
            return {}
        flags = {name: getattr(plan, name) for name in VERDICTS}
        for key, title in ERRORS.items():
            flags[title[0].lower() + title[1:]] = key in plan.errors
        return {f"people: {name}": "yes" if is_set else "no" for name, is_set in flags.items()}

    def peoples_rating(self, task: Planned, answer: Answer) -> PeoplesRating | None:
        """Return people's verdict. It is disputed if the classifier has the other verdict."""
        plan = self._labelled_plan(task, answer)
        if plan is None:
            return None
        verdict = answer.record.score.bleurt
        is_disputed = verdict is not None and verdict != plan.correct
        return PeoplesRating("correct" if plan.correct else "wrong", is_disputed)

    def _labelled_plan(self, task: Planned, answer: Answer) -> marks.LabelledPlan | None:
        """Return the same plan as people labelled it; None if they did not."""
        return self._labelled.get(
            (answer.id, tuple(answer.record.score.official), not task.is_text_only)
        )

    @cached_property
    def _labelled(self) -> dict[tuple[str, tuple[str, ...], bool], marks.LabelledPlan]:
        plans = {}
        for labelled in self._marks[0]:
            for plan in labelled.plans:
                plans[plan.id, tuple(official_steps(plan.candidate)), plan.images] = plan
        return plans

    def tables(self) -> Iterator[Table | None]:
        """Yield tables next to the paper's, all scores, breakdowns, and comparisons of runs."""
        people, judged = self._marks
        yield table4(self.tasks)
        yield table3(people, self.tasks)
        ablation = ablation_runs(self.tasks)
        yield table6(people, ablation)
        yield table7(people, ablation)
        yield table5(people, self.tasks)
        yield errors_table(marks.marked_by(people, judged))
        yield errors_agreement_table(judged)
        yield scores_table(self.tasks)
        yield condition_table(self)
        yield by_setting_table(self.tasks)
        yield by_length_table(self.tasks)
        yield people_by_length_table(people)
        yield by_activity_type_table(self.tasks)
        yield self._pairs_of_runs()

    def _pairs_of_runs(self) -> Table | None:
        """Compare every pair of runs."""
        notes = [
            ("The answer's lines are compared with gold plan 1."),
        ]
        return self.pairs(self.tasks, "Every pair of runs: normalised LCS", notes)

    def figures(self) -> Iterator[Figure | None]:
        """Yield scores by group and types of errors; None for a figure without data."""
        yield by_setting_figure(self.tasks, self.models)
        yield by_length_figure(self.tasks, self.models)
        yield correct_by_length_figure(self.tasks, self.models)
        yield by_activity_type_figure(self.tasks, self.models)
        yield marks.length_figure(marks.people_by_length(self._marks[0]), self.models)
        yield marks.errors_figure(marks.marked_by(*self._marks), self.models)
        yield condition_figure(self)

    @cached_property
    def _marks(self) -> tuple[list[marks.ModelPlans], list[JudgedPlan]]:
        """Plans labelled by people, and plans whose errors a judge marked."""
        return marks.read_plans_by_model(self.labelled()), marks.read_judgements(self.labelled())

    def cells(self, task: Planned, block: Sequence[Planned], /) -> dict[str, str]:
        """Return the LCS with gold plan 1 and statistics of the plans, for the compact table."""
        has_classifier = any(run.number("bleurt_correct") is not None for run in block)
        shares = ["empty", "unparsed"]
        if has_classifier:
            shares.insert(0, "bleurt_correct")
        cells = {MEASURES[measure]: self._score(task, measure) for measure in _SCORES}
        for measure in shares:
            cells[MEASURES[measure]] = share(task.number(measure))
        cells[MEASURES["truncated"]] = task.truncated_text
        cells["Plans"] = f"{number(task.number('num_plans'))} of {number(task.official)}"
        cells["Sentence encoder"] = name_of(task.text("encoder"))
        if has_classifier:
            cells["Classifier"] = name_of(task.text("bleurt_model"))
        return cells

    def _score(self, task: Planned, measure: str) -> str:
        mean = task.logged_mean(measure)
        decimals = self.SPEC.decimals
        if mean.questions is None:
            return number(mean.value, decimals)
        return scored(mean.value, decimals, task.covered(mean))

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared instance, with its images if a run's model was shown them."""
        saw_images = any(not run.is_text_only for run in self.tasks if key in (run.answers or ()))
        return question_fields(key, answers, self._prepared[0], saw_images=saw_images)

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return a plan with its verdict."""
        return shown_answer(answer)

    def flaws(self, task: Planned) -> Iterator[str]:
        """Yield remarks on a task's instances, answers and samples."""
        return flaws(task)

    def gaps(self) -> Iterator[str]:
        """Yield remarks on encoders, classifiers and the prepared data."""
        return gaps(self.tasks, *self._prepared)

    @cached_property
    def _prepared(self) -> tuple[Mapping[Key, tuple[str, Images]], str | None]:
        """Task descriptions and images of the prepared instances; if missing, the reason."""
        return read_prepared(read_rows)
