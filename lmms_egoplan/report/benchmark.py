"""The base class of the benchmarks' parts of a report.

It has what each benchmark defines, and the data that tables, figures and gallery share.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from lmms_egoplan.report import document
from lmms_egoplan.report.differences import difference_of
from lmms_egoplan.report.findings import ranked
from lmms_egoplan.report.headlines import headline_of, protocols_of
from lmms_egoplan.report.overlap import DEGREES, read_audits
from lmms_egoplan.report.pairs import compared
from lmms_egoplan.report.published import load_table, reference_of
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key, ScoredTask, mean_of
from lmms_egoplan.report.spec import NO_INPUTS, Inputs, Spec
from lmms_egoplan.report.tables import Table
from lmms_egoplan.stats.means import Mean

Task = TypeVar("Task", bound=ScoredTask)


class BenchmarkReport(ABC, Generic[Task]):
    """A benchmark's part of a report, for runs with comparable versions of its tasks.

    Attributes:
        SPEC: see `Spec`.
        tasks: the benchmark's tasks in the runs, read once, without those under shortcut
            conditions.
        shortcuts: the tasks under shortcut conditions. They enter no score, rank, comparison or
            published table.
    """

    SPEC: ClassVar[Spec]

    def __init__(self, runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> None:
        """Read the runs' samples.

        Raises:
            LmmsEgoplanError: a sample does not have the form that the tasks log, or two samples
                have the same question.
        """
        self.inputs = inputs
        tasks = self.read(runs)
        self.tasks = [task for task in tasks if task.shortcut is None]
        self.shortcuts = [task for task in tasks if task.shortcut is not None]

    # What a benchmark defines.

    @abstractmethod
    def read(self, runs: Sequence[Run]) -> list[Task]:
        """Read the benchmark's tasks in the runs.

        Raises:
            LmmsEgoplanError: see `read_answers`.
        """

    @abstractmethod
    def tables(self) -> Iterable[Table | None]:
        """Return the tables in order; None for a table that the runs do not fill."""

    @abstractmethod
    def cells(self, task: Task, block: Sequence[Task], /) -> Mapping[str, str]:
        """Return a task's measures for a terminal, by label.

        Args:
            task: the task.
            block: all tasks with the same heading.
        """

    @abstractmethod
    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the fields of a question's `Item` except its answers.

        There is at least one answer.
        """

    @abstractmethod
    def gallery_answer(self, answer: Answer) -> document.ShownAnswer:
        """Convert an answer for the gallery."""

    def peoples_rating(self, _task: Task, _answer: Answer) -> document.PeoplesRating | None:
        """Return people's rating of the same answer; None if there is none."""
        return None

    def figures(self) -> Iterable[document.Figure | None]:
        """Return the figures in order; None for a figure that the runs do not fill."""
        return ()

    def flaws(self, _task: Task) -> Iterable[str]:
        """Describe a run's flaws and gaps.

        Each text continues a line that begins with the run's name.
        """
        return ()

    def gaps(self) -> Iterable[str]:
        """Describe limitations of the runs as a whole, and gaps in the prepared data."""
        return ()

    def further_findings(self) -> Iterable[str]:
        """Return sentences after those on scores and differences (`findings.finding`)."""
        return ()

    def terminal_notes(self) -> Iterable[str]:
        """Explain the measures of `cells`."""
        return ()

    def compact_tasks(self) -> Sequence[Task]:
        """Return the tasks in their order on a terminal."""
        return self.tasks

    def heading(self, task: Task) -> str:
        """Return the heading of a task's block for a terminal; "" for none."""
        return task.task

    def question_order(self, keys: Iterable[Key]) -> Iterable[Key]:
        """Sort the questions for the gallery."""
        return keys

    def main_tasks(self) -> list[Task]:
        """Return the tasks of the finding, the slices and the changes."""
        return self.own_tasks

    def summary_tasks(self) -> Sequence[Task]:
        """Return the tasks of the summary, the main tasks first."""
        main = self.main_tasks()
        return [*main, *(task for task in self.own_tasks if task not in main)]

    def result_tasks(self) -> list[Task]:
        """Return each run's task that represents the benchmark in the table of results."""
        chosen: dict[str, Task] = {}
        for task in self.main_tasks():
            if task.run.name not in chosen or task.task == self.SPEC.result_task:
                chosen[task.run.name] = task
        return list(chosen.values())

    def labels(self, _task: Task, _answer: Answer) -> Mapping[str, str]:
        """Return people's labels of an answer, by attribute."""
        return {}

    @cached_property
    def text_baselines(self) -> Sequence[Task]:
        """The baselines that need no model, as tasks of a run."""
        return ()

    def mean_of_differences(self, answers: Sequence[Answer]) -> Mean:
        """Compute a difference of main scores over answers whose `scores` are the differences."""
        return mean_of(answers, self.SPEC.measure, self.SPEC.scale)

    def mean_over(self, answers: Sequence[Answer]) -> Mean:
        """Compute the main score over some of a task's answers."""
        return mean_of(answers, self.SPEC.measure, self.SPEC.scale, self.SPEC.top)

    def subset_means(self, task: Task) -> Mapping[str, Mean]:
        """Return a task's scores by the ledger's names of subsets."""
        means = {}
        for subset, metric in self.SPEC.subsets.items():
            means[subset] = Mean(task.percent(metric)) if metric else task.main
        return means

    @classmethod
    def inputs_table(cls, _inputs: Inputs) -> Table | None:
        """Return the table of inputs that do not depend on a task's version.

        Return None if there are no such inputs.

        Raises:
            LmmsEgoplanError: an input does not have the expected form.
        """
        return None

    # What all benchmarks share: scores and comparisons.

    @property
    def models(self) -> tuple[str, ...]:
        """The names of all runs of the report, see `Inputs.models`.

        Those of this part if the report's are not known.
        """
        tasks = [*self.tasks, *self.shortcuts]
        return self.inputs.models or tuple(dict.fromkeys(task.run.name for task in tasks))

    @cached_property
    def own_tasks(self) -> list[Task]:
        """The benchmark's own tasks, without shortcut conditions (`ScoredTask.shortcut`)."""
        return [task for task in self.tasks if task.shortcut is None]

    @cached_property
    def reference(self) -> document.Reference | None:
        """The published score to compare with; None if there is none."""
        if self.SPEC.reference is None:
            return None
        table, column = self.SPEC.reference
        return reference_of(load_table(self.SPEC.name, table), column or None, self.SPEC.caveat)

    def labelled(self) -> list[Path]:
        """List the folders with people's labels of the benchmark."""
        return [path for path, name in self.inputs.labelled.items() if name == self.SPEC.name]

    def pairs(
        self,
        tasks: Sequence[Task],
        title: str,
        notes: Sequence[str] = (),
        key: str = "comparisons",
        *,
        of_tasks: bool = False,
    ) -> Table | None:
        """Compare every pair of runs by the main score, see `compared`.

        Args:
            tasks: the runs' tasks.
            title: title of the table.
            notes: notes after those of `compared`.
            key: end of the table's key, after the benchmark's name.
            of_tasks: see `compared`.
        """
        spec = self.SPEC
        table = compared(
            tasks,
            spec.measure,
            f"{spec.name}_{key}",
            title,
            spec.decimals,
            spec.clusters,
            scale=spec.scale,
            of_tasks=of_tasks,
        )
        if table is None:
            return None
        return replace(table, notes=(*table.notes, *notes))

    def headline(self, task: Task) -> document.Headline:
        """Return the main score of a task for the summary."""
        return headline_of(task, self.SPEC)

    def difference(self, first: Task, second: Task) -> document.Difference | None:
        """Compare two tasks' main scores over the questions with scores in both.

        Return None without such questions.
        """
        return difference_of(first, second, self.SPEC, self.mean_of_differences)

    @cached_property
    def differences(self) -> tuple[document.Difference, ...]:
        """The differences of every two runs in the summary that have the same task."""
        differences = []
        for first, second in combinations(self.summary_tasks(), 2):
            if first.task != second.task:
                continue
            difference = self.difference(first, second)
            if difference is not None:
                differences.append(difference)
        return tuple(differences)

    @cached_property
    def headlines(self) -> list[document.Headline]:
        """The main scores for the summary."""
        main = {id(task) for task in self.result_tasks()}
        tasks = self.summary_tasks()
        protocols = protocols_of(tasks)
        lines = []
        for task, protocol in zip(tasks, protocols, strict=True):
            line = replace(self.headline(task), protocol=protocol, is_main=id(task) in main)
            lines.append(line)
        return ranked(lines, self.differences)

    @cached_property
    def answers(self) -> dict[Key, dict[document.AnswerKey, Answer]]:
        """The answers to each question with samples, by run and task."""
        answers: dict[Key, dict[document.AnswerKey, Answer]] = {}
        for task in self.tasks:
            for key, answer in (task.answers or {}).items():
                answers.setdefault(key, {})[task.run.name, task.task] = answer
        return answers

    @cached_property
    def questions(self) -> dict[Key, dict[str, Any]]:
        """The fields of each question's `Item`. Audits of training data add attributes."""
        questions = {
            key: self.question(key, [*answers.values()]) for key, answers in self.answers.items()
        }
        for name, audit in read_audits(self.labelled(), self.main_tasks()):
            for key, answers in self.answers.items():
                # Answers without a score may have no video.
                with_video = [answer for answer in answers.values() if answer.cluster]
                if with_video:
                    question = f"{with_video[0].cluster} {with_video[0].id}"
                    degree = audit.questions.get(question, DEGREES[-1])
                    questions[key]["facts"][name] = degree
        return questions
