"""The base class of the reports on EgoPlan-Bench and EgoPlan-Bench2."""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Headline, ShownAnswer
from lmms_egoplan.report.egoplan.answers import (
    BLIND,
    CHANCE,
    EGOPLAN,
    Questions,
    Series,
    baseline_series,
    read_series,
)
from lmms_egoplan.report.egoplan.calibration import (
    Rows,
    calibration_rows,
    calibration_table,
    missing_diagrams,
    prediction_sets_table,
    reliability_figure,
    reliability_table,
)
from lmms_egoplan.report.egoplan.docs import read_docs
from lmms_egoplan.report.egoplan.failures import (
    LABELS,
    Failure,
    failures_agreement_table,
    failures_table,
)
from lmms_egoplan.report.egoplan.gain import gain_table, with_gains
from lmms_egoplan.report.egoplan.gallery import Facts, question_fields, shown_answer
from lmms_egoplan.report.egoplan.notes import chance_note
from lmms_egoplan.report.egoplan.remarks import flaws, missing_questions
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.samples import read_labels
from lmms_egoplan.report.scores import Answer, Key
from lmms_egoplan.report.spec import NO_INPUTS, Inputs
from lmms_egoplan.report.tables import Table, number, scored, share, show

# The conditions that are compared with each other. Pairs of all conditions would be too many.
MAIN_CONDITIONS = (None, BLIND)


class ChoiceReport(BenchmarkReport[Series]):
    """Base class of both benchmarks' reports.

    Attributes:
        QUESTIONS: The benchmark's questions.
        VISUALS: Reads the frames that the gallery shows.
    """

    QUESTIONS: ClassVar[Questions]
    VISUALS: ClassVar[visuals.FrameReader]

    def __init__(self, runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> None:
        """Read the runs' samples.

        The shortcut conditions are among the tasks: tables and gallery contain them.
        """
        super().__init__(runs, inputs)
        self.tasks += self.shortcuts

    @abstractmethod
    def facts(self, key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return the properties that the gallery can be filtered by.

        Args:
            key: The question's key.
            doc: The question; None if it is not available.
            part: `Choice.part`, as logged.
        """

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """Read the tasks with a score, each run's main task first."""
        return with_gains(read_series(runs, self.QUESTIONS))

    @cached_property
    def usual(self) -> list[Series]:
        """The own tasks, the one without the video, and the baselines without a model."""
        asked = [task for task in self.tasks if task.shortcut in MAIN_CONDITIONS]
        return [*asked, *self.text_baselines]

    @cached_property
    def text_baselines(self) -> list[Series]:
        """The baselines of `baseline_points`, as a run's tasks.

        They cover the questions that were asked and are available.
        """
        return list(baseline_series(self.docs[0], self.tasks)) if self.tasks else []

    def chance_note(self) -> str:
        """State the accuracies of chance and of the baselines without a model."""
        return chance_note(self.text_baselines, len(self.docs[0]))

    def headline(self, task: Series) -> Headline:
        """Add the accuracy of chance and, if choices were ranked, the accuracy by sum."""
        by_sum = (("by sum", task.percent("acc_sum")),) if task.is_ranked else ()
        return replace(
            super().headline(task), is_generated=not task.is_ranked, chance=CHANCE, beside=by_sum
        )

    @cached_property
    def docs(self) -> tuple[dict[Key, Doc], str | None]:
        """The questions that were asked, and the reason why prepared questions are missing."""
        return read_docs(self.tasks, self.QUESTIONS)

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """Sort by id."""
        return sorted(keys)

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the question as prepared, or as lm-eval logs it."""
        doc = self.docs[0].get(key)
        parts = [answer.record.part for answer in answers if answer.record.part]
        facts = self.facts(key, doc, parts[0] if parts else None)
        return question_fields(key, doc, facts, self.VISUALS)

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the log-probabilities of the choices, or the reply."""
        return shown_answer(answer)

    def failure_tables(self) -> Iterator[Table | None]:
        """Yield types of failures, and the agreement of judges with people."""
        failures = read_labels(self.labelled(), LABELS, Failure)
        yield failures_table(failures)
        yield failures_agreement_table(failures)

    def terminal_notes(self) -> Iterable[str]:
        """Explain acc, acc_sum and acc_bytes below the terminal's table, if choices are ranked."""
        if not any(task.is_ranked for task in self.tasks):
            return ()
        note = (
            "acc ranks the choices by mean log-probability per token, acc_sum by the sum, "
            "acc_bytes by the sum per byte."
        )
        return (note,)

    def cells(self, task: Series, block: Sequence[Series], /) -> dict[str, str]:
        """Return accuracies in per cent, and the number of questions that they cover."""
        decimals = self.SPEC.decimals
        is_ranked = any(block_task.is_ranked for block_task in block)
        cells = {}
        for metric in ("acc", "acc_sum", "acc_bytes") if is_ranked else ("acc",):
            cells[metric] = scored(task.percent(metric), decimals, task.coverage)
        for metric in self.QUESTIONS.part_metrics.values():
            cells[metric] = number(task.percent(metric), decimals)
        if not is_ranked:
            cells["unparsed"] = share(task.number("unparsed"))
            cells["truncated"] = task.truncated_text
        ties = task.ranking.get("near_ties")
        return cells | {
            "not compared": task.ranking_flaw or "",
            "near ties": show(ties, None) if ties else "",
            "ranking": task.ranking.get("note", ""),
            "questions": f"{number(task.questions)} of {number(task.whole)}",
        }

    @cached_property
    def _calibration(self) -> dict[str, Rows]:
        return calibration_rows(self.own_tasks)

    def meaning_tables(self) -> Iterator[Table | None]:
        """Yield the accuracy by condition, what the video adds, calibration, and conformal sets."""
        yield condition_table(self)
        benchmark = self.SPEC.name
        yield gain_table(benchmark, self.tasks)
        yield calibration_table(benchmark, self._calibration["calibration"])
        yield prediction_sets_table(benchmark, self._calibration["prediction_sets"])
        yield reliability_table(benchmark, self._calibration["reliability"])

    def figures(self) -> Iterator[Figure | None]:
        """Yield the accuracy by condition, and the reliability diagram."""
        yield condition_figure(self, CHANCE)
        yield reliability_figure(self.SPEC, self._calibration["reliability"], self.models)

    def pairs_of_runs(self) -> Iterator[Table | None]:
        """Compare every pair of runs in each task."""
        logged = [task for task in self.tasks if task.answers and task.shortcut in MAIN_CONDITIONS]
        for name in dict.fromkeys(task.task for task in logged):
            key = "comparisons"
            if name != EGOPLAN.main_task:
                key += "_" + re.sub(r"\W+", "_", name)
            same = [task for task in logged if task.task == name]
            yield self.pairs(same, f"Every pair of runs: {name}", key=key)

    def flaws(self, task: Series) -> Iterator[str]:
        """Yield problems with a task's questions and samples."""
        return flaws(task)

    def gaps(self) -> Iterator[str]:
        """Yield problems with the prepared data, and missing reliability diagrams."""
        yield from missing_questions(self.answers.keys(), *self.docs)
        yield from missing_diagrams(self._calibration["no_diagram"])
