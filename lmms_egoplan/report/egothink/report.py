"""EgoThink's part of a report: its facts, and the order of its tables and figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.prepare import FORMATS
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Images, PeoplesRating, ShownAnswer
from lmms_egoplan.report.egothink.answer_files import PEOPLE, RatedAnswer
from lmms_egoplan.report.egothink.answers import CAPABILITIES, SINGLE, EgoThinkTask, read_graded
from lmms_egoplan.report.egothink.corrected import corrected_table
from lmms_egoplan.report.egothink.figures import points_figure, sizes_figure
from lmms_egoplan.report.egothink.formats import formats_table
from lmms_egoplan.report.egothink.gallery import (
    QUESTION_FORMAT,
    question_fields,
    read_prepared_questions,
    shown_answer,
)
from lmms_egoplan.report.egothink.judge_means import (
    JudgeMean,
    judge_figures,
    judge_means,
    judge_means_table,
)
from lmms_egoplan.report.egothink.judges import judges_table, table9, table10, table11
from lmms_egoplan.report.egothink.means import mean_of_differences, mean_of_scores
from lmms_egoplan.report.egothink.noise import noise_table
from lmms_egoplan.report.egothink.remarks import flaws, gaps
from lmms_egoplan.report.egothink.tables import (
    capabilities_table,
    dimensions_table,
    model_rows,
    table2,
    table3,
)
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.samples import read_labels
from lmms_egoplan.report.scores import Answer, Key
from lmms_egoplan.report.spec import Inputs, Spec
from lmms_egoplan.report.tables import Table, Value, name_of, number, scored, share
from lmms_egoplan.stats.means import Mean

_PEOPLE = "people's rating"
_GRADES = {0.0: "wrong", 0.5: "partly right", 1.0: "right"}
# How the tasks obtain their scores, in the words of the ledger.
_LEDGER_FIELDS = {
    "egothink_bench": {"prompt": "the model family's prompts in appendix C of the paper"},
    "egothink__official": {"prompt": "official EgoThink API prompt"},
    "egothink__lmms-eval-0.7.3": {"prompt": "lmms-eval EgoThink"},
    "egothink__physbrain": {"prompt": "camera wearer, as short as possible"},
}


class EgoThinkReport(BenchmarkReport[EgoThinkTask]):
    """EgoThink's part of a report."""

    SPEC = Spec(
        name="egothink",
        title="EgoThink",
        lead=(
            "700 open questions about single first-person images, in six capabilities "
            "and twelve dimensions. A judge model compares each answer with a person's "
            "answer and rates it 0, 0.5 or 1. Scores are 100 times the mean."
        ),
        metric="average",
        decimals=1,
        measure="score",
        compact_title="EgoThink: score, 0 to 100",
        compact_main="average of the twelve",
        group_order={
            "dimension": DIMENSION_NAMES,
            "capability": [*CAPABILITIES],
            _PEOPLE: [*_GRADES.values()],
            QUESTION_FORMAT: FORMATS,
        },
        reference=("table3", ""),
        caveat=("the published scores are by another judge, GPT-4, which is no longer available"),
        subsets={
            "average": "",
            "object": "object",
            "activity": "activity",
            "localization": "localization",
            "reasoning": "reasoning",
            "forecasting": "forecasting",
            "planning: navigation": "navigation",
            "planning: assistance": "assistance",
        },
        ledger_fields=_LEDGER_FIELDS,
    )

    def read(self, runs: Sequence[Run]) -> list[EgoThinkTask]:
        """Return the dimensions of each run as one task.

        Those of each shortcut condition are another one.
        """
        tasks: list[EgoThinkTask] = []
        for run in runs:
            tasks += read_graded(run)
        return tasks

    def summary_tasks(self) -> list[EgoThinkTask]:
        """Add each run's capabilities."""
        tasks = list(self.tasks)
        for task in self.tasks:
            tasks += task.capabilities()
        return tasks

    def labels(self, _task: EgoThinkTask, answer: Answer) -> Mapping[str, str]:
        """Return the people's rating of the same answer."""
        rating = self._rated.get((answer.id, answer.record.answer))
        return {} if rating is None else {_PEOPLE: _GRADES.get(rating, "between these")}

    def peoples_rating(self, _task: EgoThinkTask, answer: Answer) -> PeoplesRating | None:
        """Return people's mean rating.

        It is disputed if the judge's rating differs by more than half of the scale.
        """
        rating = self._rated.get((answer.id, answer.record.answer))
        if rating is None:
            return None
        judged = answer.record.rating
        is_disputed = judged is not None and abs(judged - rating) > 0.5
        return PeoplesRating(f"{rating:.3g} of 1", is_disputed)

    @cached_property
    def _people(self) -> list[RatedAnswer]:
        return read_labels(self.labelled(), PEOPLE, RatedAnswer)

    @cached_property
    def _rated(self) -> dict[tuple[str, str], float]:
        return {(answer.id, answer.answer): answer.rating for answer in self._people}

    def subset_means(self, task: EgoThinkTask) -> dict[str, Mean]:
        """Return the average, the scores by capability, and those of planning by dimension."""
        groups = {"": task.dimensions, **CAPABILITIES, **SINGLE}
        return {subset: task.part(groups[name]).mean for subset, name in self.SPEC.subsets.items()}

    def mean_over(self, answers: Sequence[Answer]) -> Mean:
        """Return the plain mean over the answers' dimensions."""
        return mean_of_scores(answers)

    def mean_of_differences(self, answers: Sequence[Answer]) -> Mean:
        """Return the plain mean over the answers' dimensions, for differences."""
        return mean_of_differences(answers)

    @classmethod
    def inputs_table(cls, inputs: Inputs) -> Table | None:
        """Return the table of judge noise, or None without repeated judgements."""
        return noise_table(inputs.judged)

    def tables(self) -> Iterator[Table | None]:
        """Yield tables with published scores, scores by group, and pairs of judges and runs."""
        yield table3(self.tasks)
        yield table2(self._models)
        yield capabilities_table(self.tasks)
        yield dimensions_table(self.tasks)
        yield formats_table(self.tasks, self._facts_of)
        yield judge_means_table(self._judge_means)
        yield judges_table(self.tasks)
        yield corrected_table(self._people, self.tasks)
        yield self._pairs_of_runs()
        yield condition_table(self)
        yield table9(self._rated, self.tasks)
        yield table10(self._people)
        yield table11()

    def _pairs_of_runs(self) -> Table | None:
        """Compare every pair of runs."""
        notes = [
            (
                "All questions have equal weight here, so activity and forecasting count twice, "
                "and the differences deviate from those of the averages."
            ),
        ]
        return self.pairs(self.tasks, "Every pair of runs", notes)

    def figures(self) -> Iterator[Figure | None]:
        """Yield figures of capabilities and dimensions, with a published model to compare."""
        if self.tasks:
            yield points_figure(
                "egothink_capabilities", "Six capabilities", CAPABILITIES, self.tasks, self.models
            )
            yield points_figure(
                "egothink_dimensions", "Twelve dimensions", SINGLE, self.tasks, self.models
            )
            yield sizes_figure(self.tasks, self._models)
        yield from judge_figures(self._judge_means, self.models)
        yield condition_figure(self)

    def _facts_of(self, key: Key) -> Mapping[str, str]:
        """Return the attributes of a question."""
        facts: Mapping[str, str] = self.questions[key]["facts"]
        return facts

    @cached_property
    def _models(self) -> list[dict[str, Value]]:
        return model_rows(self.tasks)

    @cached_property
    def _judge_means(self) -> list[JudgeMean]:
        return judge_means(self.tasks, self._rated)

    def heading(self, _task: EgoThinkTask) -> str:
        """Return "", because a run has only one block."""
        return ""

    def cells(self, task: EgoThinkTask, _block: Sequence[EgoThinkTask], /) -> dict[str, str]:
        """Return each dimension's score, 0 to 100, and their average."""
        whole = task.whole
        parts = {name: task.part(part) for name, part in SINGLE.items() if name in task.tasks}
        parts[self.SPEC.compact_main] = whole
        cells = dict.fromkeys(SINGLE, "")
        for name, part in parts.items():
            cells[name] = scored(part.mean.value, self.SPEC.decimals, part.coverage)
        return {
            **cells,
            "questions": f"{number(whole.questions)} of {number(whole.official)}",
            "judged": share(whole.judged / whole.questions if whole.questions else None),
            "truncated": task.truncated_text,
            "suspect": share(whole.suspect),
            "judge": name_of(task.judge),
        }

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """Sort questions by dimension."""
        return sorted(keys, key=lambda key: DIMENSION_NAMES.index(dimension_of(str(key[0]))))

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared question, or the text that lm-eval logged."""
        return question_fields(key, answers, self._prepared[0])

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the answer with the judge's rating and reply."""
        return shown_answer(answer)

    @cached_property
    def _prepared(self) -> tuple[dict[Key, tuple[str, Images]], dict[str, str]]:
        return read_prepared_questions(self.tasks)

    def flaws(self, task: EgoThinkTask) -> Iterator[str]:
        """Yield the problems of dimensions, judges and samples."""
        return flaws(task)

    def gaps(self) -> Iterator[str]:
        """Yield notes on different judges and on questions that are not prepared."""
        return gaps(self.tasks, *self._prepared)
