"""EgoPlan-Bench's part of a report: its facts, and the order of its tables and figures."""

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby

from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.verification import AGREED, Verified, read_checked
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egoplan.answers import EGOPLAN, Groups, Series, grouped
from lmms_egoplan.report.egoplan.baselines import BASELINES
from lmms_egoplan.report.egoplan.choice_report import MAIN_CONDITIONS, ChoiceReport
from lmms_egoplan.report.egoplan.docs import BINS_OF_PAST_ACTIONS, bin_of_past_actions
from lmms_egoplan.report.egoplan.figures import (
    SIMILARITY,
    accuracies_figure,
    past_actions_figure,
    similarity_figure,
)
from lmms_egoplan.report.egoplan.gallery import Facts
from lmms_egoplan.report.egoplan.ledger_fields import EGOPLAN_FIELDS
from lmms_egoplan.report.egoplan.similarity import (
    LEVELS,
    GoalSimilarities,
    answer_levels,
    goal_similarities,
)
from lmms_egoplan.report.egoplan.tables import (
    past_actions_table,
    scores_table,
    similarity_table,
    table1,
    table3,
    table4,
)
from lmms_egoplan.report.scores import Key
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import Table

_CHECKED = "people's check"
_SOURCE_NAMES: dict[str, str] = {
    EPIC_KITCHENS: "EPIC-KITCHENS (in-domain)",
    EGO4D: "Ego4D (out-of-domain)",
}


class EgoPlanReport(ChoiceReport):
    """EgoPlan-Bench's part of a report.

    The input ``similarity`` sets the model for goal-answer similarity.
    """

    SPEC = Spec(
        name="egoplan",
        title="EgoPlan",
        lead=(
            "Which of four actions comes next, given a goal and a first-person video of the "
            "progress so far? The choices are ranked by the likelihood that the model assigns to "
            "them. The score is the share of questions with the right choice first."
        ),
        metric="accuracy",
        result_task="egoplan_val",
        decimals=2,
        measure="acc",
        scale=100,
        clusters="videos",
        compact_title="EgoPlan: accuracy in per cent",
        compact_main="acc",
        group_order={SIMILARITY: LEVELS, _CHECKED: (AGREED,)},
        reference=("table1", ""),
        subsets={
            "val": "",
            "val (EPIC-KITCHENS), called L1": "acc_epic_kitchens",
            "val (Ego4D), called L2": "acc_ego4d",
        },
        baselines=BASELINES,
        ledger_fields=EGOPLAN_FIELDS,
    )
    QUESTIONS = EGOPLAN
    VISUALS = visuals.EGOPLAN

    def main_tasks(self) -> list[Series]:
        """Return each run's main task, or its first one if it has no main task."""
        return [
            next(run_tasks)
            for _, run_tasks in groupby(self.own_tasks, key=lambda task: task.run.name)
        ]

    def tables(self) -> Iterator[Table | None]:
        """Yield all tables.

        They have scores compared with the paper's, all scores, scores by group, pairs of runs, and
        the test split.
        """
        ranked = [task for task in self.tasks if task.is_main]
        chance = self.chance_note()
        yield table1(ranked, chance)
        # Table 3 is about videos, not rendered scenes.
        yield table3([task for task in ranked if not task.is_demo], chance)
        tasks = [*self.tasks, *self.text_baselines]
        yield scores_table(tasks, self.QUESTIONS.part_metrics.values(), chance)
        yield past_actions_table(self._by_past_actions, chance)
        yield similarity_table(self._by_similarity, self._similarities.measure, chance)
        yield from self.meaning_tables()
        yield from self.failure_tables()
        yield from self.pairs_of_runs()
        yield from self._pairs_of_tasks()
        yield table4()

    def _pairs_of_tasks(self) -> Iterator[Table | None]:
        """Compare tasks of the same model."""
        logged = [task for task in self.tasks if task.answers and task.shortcut in MAIN_CONDITIONS]
        logged.sort(key=lambda task: task.model)
        for position, (model, group) in enumerate(groupby(logged, lambda task: task.model), 1):
            tasks = list(group)
            has_several = len({task.task for task in tasks}) > 1
            if has_several and any(task.is_main for task in tasks):
                name = model.rstrip("/").rpartition("/")[2]
                title = f"Every pair of tasks: {name}"
                yield self.pairs(tasks, title, key=f"tasks_{position}", of_tasks=True)

    def figures(self) -> Iterator[Figure | None]:
        """Yield accuracies, and accuracies by group as in the paper's Figs. 8 and 7."""
        yield accuracies_figure(self.own_tasks, self.text_baselines, self.models)
        yield past_actions_figure(self._by_past_actions, self.models)
        is_own_model = self.inputs.similarity is not None
        measure = self._similarities.measure
        yield similarity_figure(
            self._by_similarity, measure, self.models, is_own_model=is_own_model
        )
        yield from super().figures()

    @cached_property
    def _by_past_actions(self) -> Groups:
        return grouped(
            self.usual,
            {key: bin_of_past_actions(doc) for key, doc in self.docs[0].items()},
            BINS_OF_PAST_ACTIONS,
        )

    @cached_property
    def _by_similarity(self) -> Groups:
        level_names = {key: LEVELS[level] for key, level in self._levels.items()}
        return grouped(self.usual, level_names, LEVELS)

    @cached_property
    def _similarities(self) -> GoalSimilarities:
        return goal_similarities(self.docs[0].values(), self.inputs.similarity)

    @cached_property
    def _levels(self) -> dict[Key, int]:
        """The level of each question's similarity."""
        return answer_levels(self.docs[0], self._similarities)

    def facts(self, key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return video source and people's check.

        If the question is available, add past actions and similarity.
        """
        facts = {}
        source = doc["video_source"] if doc else part
        if source in _SOURCE_NAMES:
            facts["source"] = _SOURCE_NAMES[source]
        checked = self._checked.get(key[1:])
        if checked:
            facts[_CHECKED] = checked
        if doc:
            facts["past actions"] = bin_of_past_actions(doc)
            level = self._levels.get(key)
            if level is not None:
                facts[SIMILARITY] = LEVELS[level]
        return facts

    @cached_property
    def _checked(self) -> Verified:
        return read_checked(self.labelled())

    def gaps(self) -> Iterator[str]:
        """Also yield the reason why similarity is missing."""
        yield from super().gaps()
        problem = self._similarities.problem
        if problem:
            yield f"No accuracy by goal-answer similarity: {problem}"
