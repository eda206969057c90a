"""A benchmark's part of a report: its specification, and the base class that makes its sections."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from PIL import Image

from lmms_egoplan.judging.judgement import DEMO as DEMO_JUDGE
from lmms_egoplan.report import document
from lmms_egoplan.report.comparability import unequal
from lmms_egoplan.report.findings import finding, ranked
from lmms_egoplan.report.ledger import runs_and_ledger
from lmms_egoplan.report.overlap import DEGREES, read_audits
from lmms_egoplan.report.pairs import compared
from lmms_egoplan.report.panels import tables_of
from lmms_egoplan.report.published import load_table, reference_of
from lmms_egoplan.report.run import Run, changed_settings
from lmms_egoplan.report.scores import NONE, Answer, Key, ScoredTask, mean_of
from lmms_egoplan.report.tables import Table, side_by_side
from lmms_egoplan.stats.intervals import why_no_interval
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.text import join_list

if TYPE_CHECKING:
    from datasets import Dataset
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Inputs:
    """The inputs of a report except the runs.

    Attributes:
        similarity: encoder for the similarity of texts, a name or a folder; None for the
            benchmark's default.
        judged: files of answers that a judge has rated several times.
        labelled: folders with people's labels, each with its benchmark (`labelled_folders`).
    """

    similarity: str | None = None
    judged: tuple[Path, ...] = ()
    labelled: Mapping[Path, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The facts about a benchmark's part of a report.

    Attributes:
        name: name of the benchmark, and key of the section.
        title: title of the section.
        lead: introduction of the section.
        metric: name of the main score in the summary.
        decimals: decimals of the main score.
        measure: key of the main score in an answer's `scores`.
        compact_title: title of the table for a terminal.
        compact_main: label of the main score in that table.
        clusters: plural noun for `Answer.cluster`.
        unit: unit of a difference of main scores; "" for none.
        top: the highest possible main score.
        panel: how judges' ratings of an answer are combined, except by their mean: ``majority``, or
            ``median`` if the ratings have many levels.
        scale: factor from `measure` to the main score.
        group_order: order of an attribute's groups, if it is neither alphabetical nor numeric.
        reference: table and column of the published score to compare with; "" for the table's main
            column.
        caveat: see `Reference`.
        subsets: metric of each of the ledger's subsets; "" for the main score.
        ledger_fields: how each task obtains its scores, by task and by the ledger's names of
            fields. Only these tasks are compared with the ledger.
    """

    name: str
    title: str
    lead: str
    metric: str
    decimals: int
    measure: str
    compact_title: str
    compact_main: str
    clusters: str = "questions"
    unit: str = "points"
    top: float = 100
    panel: str = "majority"
    scale: float = 1
    group_order: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference: tuple[str, str] | None = None
    caveat: str = ""
    subsets: Mapping[str, str] = field(default_factory=dict)
    ledger_fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


NO_INPUTS = Inputs()
# Attributes with more groups, such as activities, have no slice. The gallery's search covers them.
_MOST_GROUPS = 24
# Conditions whose names stay plural before a value: "frames 8", but "judge gpt-4o".
_COUNTED = ("frames", "new tokens", "prompts among the model arguments")
# Conditions that a protocol has in another form: the task's name and `ScoredTask.plain_text`.
_UNNAMED = ("tasks", "chat templates")
# Longest value of a condition in a protocol, such as a system instruction.
_LONGEST = 80

Task = TypeVar("Task", bound=ScoredTask)
Row = TypeVar("Row")
TableOrFigure = TypeVar("TableOrFigure", Table, document.Figure)


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
        """Return the tasks of the summary, the main tasks first. Each has its own card."""
        main = self.main_tasks()
        return [*main, *(task for task in self.own_tasks if task not in main)]

    def labels(self, _task: Task, _answer: Answer) -> Mapping[str, str]:
        """Return people's labels of an answer, by attribute."""
        return {}

    @cached_property
    def text_baselines(self) -> Sequence[Task]:
        """The baselines that need no model, as tasks of a run."""
        return ()

    def mean_of_scores(self, answers: Sequence[Answer]) -> Mean:
        """Compute the main score over some answers from their `scores` alone."""
        return mean_of(answers, self.SPEC.measure, self.SPEC.scale, self.SPEC.top)

    def mean_of_differences(self, answers: Sequence[Answer]) -> Mean:
        """Compute a difference of main scores over answers whose `scores` are the differences."""
        return mean_of(answers, self.SPEC.measure, self.SPEC.scale)

    def mean_over(self, answers: Sequence[Answer]) -> Mean:
        """Compute the main score over some of a task's answers."""
        return self.mean_of_scores(answers)

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

    def panel_tables(self) -> Iterator[Table]:
        """Return the table of panels of judges, if there are any."""
        return tables_of(self.SPEC.name, self.tasks, self.SPEC.panel, self.mean_over)

    def difference(self, first: Task, second: Task) -> document.Difference | None:
        """Compare two tasks' main scores over the questions with scores in both.

        Return None without such questions.
        """
        measure = self.SPEC.measure
        second_answers = second.answers or {}
        shared: list[Answer] = []
        differences: list[float] = []
        for key, answer in (first.answers or {}).items():
            if key not in second_answers:
                continue
            first_score = answer.scores.get(measure)
            second_score = second_answers[key].scores.get(measure)
            if first_score is not None and second_score is not None:
                differences.append(first_score - second_score)
                shared.append(replace(answer, scores={measure: first_score - second_score}))
        if not shared:
            return None
        mean = self.mean_of_differences(shared)
        low, high = mean.ends
        return document.Difference(
            first=first.run.name,
            second=second.run.name,
            task=first.task,
            value=mean.value or 0.0,
            low=low,
            high=high,
            questions=len(shared),
            won=sum(value > 0 for value in differences),
            lost=sum(value < 0 for value in differences),
            no_interval=self._why_no_interval(mean),
            why=_why_not_comparable(first, second),
        )

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
        return ranked([self.headline(task) for task in self.summary_tasks()], self.differences)

    def headline(self, task: Task) -> document.Headline:
        """Return the main score of a task for the summary."""
        main = task.main
        return document.Headline(
            run=task.run.name,
            benchmark=self.SPEC.title,
            task=task.task,
            metric=self.SPEC.metric,
            value=main.value,
            decimals=self.SPEC.decimals,
            interval=main.interval,
            questions=main.questions,
            coverage=task.coverage,
            truncated=task.truncated,
            truncated_of=task.truncated_of,
            no_interval="" if main.value is None else self._why_no_interval(main),
            apart=task.objections,
            is_demo=task.is_demo,
            protocol=", ".join((task.task, *_protocol(task))),
            gallery=task.gallery,
        )

    def changes(self) -> Iterator[document.Change]:
        """Yield every two comparable runs of one model in one task, the earlier one first."""
        tasks = sorted(self.main_tasks(), key=lambda task: task.run.time)
        for earlier, later in combinations(tasks, 2):
            if not _is_change(earlier, later):
                continue
            difference = self.difference(later, earlier)
            if difference is not None:
                yield document.Change(
                    task=later.task,
                    difference=difference,
                    earlier=(earlier.run.time, earlier.main.value),
                    later=(later.run.time, later.main.value),
                    changed=tuple(changed_settings(earlier.run.provenance, later.run.provenance)),
                    gallery=(earlier.gallery, later.gallery),
                )

    def _why_no_interval(self, mean: Mean) -> str:
        if mean.interval:
            return ""
        if mean.drawn is not None:
            return why_no_interval(mean.drawn, "questions")
        return why_no_interval(mean.clusters, self.SPEC.clusters)

    # Questions, answers and slices.

    @cached_property
    def answers(self) -> dict[Key, dict[str, Answer]]:
        """The answers to each question with samples, by the run's name in the gallery."""
        answers: dict[Key, dict[str, Answer]] = {}
        for task in self.tasks:
            for key, answer in (task.answers or {}).items():
                answers.setdefault(key, {})[task.gallery] = answer
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

    def slices(self) -> Iterator[document.Slice]:
        """Split the main score by each attribute of the questions and by people's labels."""
        facts: dict[str, None] = {}
        for question in self.questions.values():
            facts |= dict.fromkeys(question["facts"])
        for attribute in facts:
            yield from self._slice(attribute, self._facts)
        labels: dict[str, None] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                labels |= dict.fromkeys(self.labels(task, answer))
        for attribute in labels:
            for part in self._slice(attribute, self.labels):
                yield replace(part, is_fact=False)

    def _facts(self, _task: Task, answer: Answer) -> Mapping[str, str]:
        """Return the attributes of an answer's question."""
        return self.questions[answer.key]["facts"]

    def _slice(
        self, attribute: str, groups_of: Callable[[Task, Answer], Mapping[str, str]]
    ) -> Iterator[document.Slice]:
        """Split the main score by an attribute, unless it has one or too many groups.

        Args:
            attribute: the attribute.
            groups_of: returns the groups of an answer by attribute.
        """
        members: dict[str, dict[str, list[Answer]]] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                group = groups_of(task, answer).get(attribute)
                if group is not None:
                    members.setdefault(group, {}).setdefault(task.gallery, []).append(answer)
        is_audit = bool(members.keys() & {*DEGREES})
        if not is_audit and not 2 <= len(members) <= _MOST_GROUPS:
            return
        groups = []
        for name in sorted(members, key=self._sort_key(attribute)):
            for run, answers in members[name].items():
                groups.append(self._group(name, run, self.mean_over(answers)))
        yield document.Slice(attribute, tuple(groups))

    def _sort_key(self, attribute: str) -> Callable[[str], tuple[int, list[tuple[int, int, str]]]]:
        """Return a function from a group of an attribute to its key for sorting."""
        order = [*self.SPEC.group_order.get(attribute, DEGREES)]

        def key(group: str) -> tuple[int, list[tuple[int, int, str]]]:
            return order.index(group) if group in order else len(order), _natural(group)

        return key

    def _group(self, name: str, run: str, mean: Mean) -> document.Group:
        why = self._why_no_interval(mean)
        return document.Group(name, run, mean.value, mean.interval, why, mean.questions or 0)

    # Sections, tables for a terminal, and the gallery.

    def remarks(self) -> Iterator[str]:
        """Describe flaws and gaps of the runs, each in a sentence or two."""
        tasks = [*self.own_tasks, *self.shortcuts]
        names: dict[str, list[str]] = {}
        for task in tasks:
            for text in (*self.flaws(task), *task.remarks):
                names.setdefault(text, []).append(task.name)
        for text, task_names in names.items():
            yield f"{join_list(task_names, 8)}: {text}"
        demo = [task.name for task in tasks if task.is_demo]
        if demo:
            yield f"{document.DEMO_NOTE} {', '.join(demo)}."
        yield from self.gaps()

    def section(self) -> document.Section | None:
        """Return the benchmark's part of the page.

        Return None if there are neither runs of its tasks nor labels. Without runs, the section has
        only the tables and figures that labels fill.

        Raises:
            LmmsEgoplanError: an input cannot be used.
        """
        if not self.tasks:
            return self._section_of_labels()
        tables: list[Table] = []
        for table in self._all_tables():
            if table and table.rows:
                tables += (self._marked(part) for part in table.parted())
        return replace(
            self.scores_section(),
            tables=tuple(tables),
            figures=self._marked_figures(),
            remarks=tuple(self.remarks()),
            slices=tuple(self.slices()),
            changes=tuple(self.changes()),
            baselines=tuple(
                self._group(task.task, task.run.name, task.main) for task in self.text_baselines
            ),
        )

    def _section_of_labels(self) -> document.Section | None:
        """Return the section with the tables and figures that labels fill; None without any."""
        tables = [table for table in self.tables() if table is not None and table.has_own]
        if not tables:
            return None
        return document.Section(
            self.SPEC.name,
            self.SPEC.title,
            self.SPEC.lead,
            (),
            tuple(self._marked(table) for table in tables),
            self._marked_figures(),
            tuple(self.remarks()) if self.shortcuts else (),
        )

    def _all_tables(self) -> Iterator[Table | None]:
        """Yield the benchmark's tables, those of panels, and the runs next to the ledger."""
        yield from self.tables()
        yield from self.panel_tables()
        fields = self.SPEC.ledger_fields
        means = [(task, self.subset_means(task)) for task in self.tasks if task.task in fields]
        yield runs_and_ledger(self.SPEC.name, means, fields)

    def _marked_figures(self) -> tuple[document.Figure, ...]:
        return tuple(self._marked(figure) for figure in self.figures() if figure is not None)

    def _marked(self, part: TableOrFigure) -> TableOrFigure:
        """Mark a table or figure with scores of the demo as meaningless, in its title."""
        if not any(task.is_demo for task in (*self.tasks, *self.shortcuts)):
            return part
        title = f"{part.title} ({document.DEMO})"
        if isinstance(part, document.Figure):
            return replace(part, title=title, draw=partial(_draw_marked, part.draw))
        return replace(part, title=title) if part.has_own else part

    def scores_section(self) -> document.Section:
        """Return the section for a terminal.

        It is without tables, figures, remarks, slices and changes.
        """
        spec = self.SPEC
        main = self.headlines[: len(self.main_tasks())]
        return document.Section(
            spec.name,
            spec.title,
            spec.lead,
            tuple(self.headlines),
            finding=finding(spec.title, main, self.differences, self.reference, spec.unit),
            unit=spec.unit,
            top=spec.top,
            reference=self.reference,
            differences=self.differences,
        )

    def compact_table(self, *, with_main: bool = True) -> Table:
        """Return the scores for a terminal, with one column per run and one block per task.

        Args:
            with_main: false to omit the main scores of `summary_tasks`.
        """
        hidden = set() if with_main else {id(task) for task in self.summary_tasks()}
        tasks = self.compact_tasks()
        blocks: dict[str, dict[str, dict[str, str]]] = {}
        for heading in dict.fromkeys(map(self.heading, tasks)):
            block = [task for task in tasks if self.heading(task) == heading]
            lines = blocks.setdefault(heading, {})
            for task in block:
                for label, text in self.cells(task, block).items():
                    if label != self.SPEC.compact_main or id(task) not in hidden:
                        lines.setdefault(label, {})[task.run.name] = text
        return side_by_side(
            f"{self.SPEC.name}_compact",
            self.SPEC.compact_title,
            list(dict.fromkeys(task.run.name for task in tasks)),
            blocks,
            self._all_terminal_notes(),
        )

    def _all_terminal_notes(self) -> list[str]:
        """Return the notes of the table for a terminal."""
        notes = list(self.terminal_notes())
        if any(task.is_by_demo for task in self.tasks):
            notes.append(
                f"The judge '{DEMO_JUDGE}' only compares words, so its scores are meaningless."
            )
        demo = dict.fromkeys(task.run.name for task in self.tasks if task.is_demo)
        if demo:
            notes.append(f"{document.DEMO_NOTE} {', '.join(demo)}.")
        notes.append(
            "In parentheses: coverage, the scored share of the benchmark's official questions."
        )
        remarks: dict[str, None] = {}
        for task in self.tasks:
            for remark in task.remarks:
                remarks[f"{task.name}: {remark}"] = None
        return [*notes, *remarks]

    def items(self) -> list[document.Item]:
        """Return the questions for the gallery, with the logged answers."""
        items: list[document.Item] = []
        uses: dict[str, int] = {}
        for key in self.question_order(self.answers):
            answers = self.answers[key]
            name = next(iter(answers.values())).id
            uses[name] = uses.get(name, 0) + 1
            suffix = f" ({uses[name]})" if uses[name] > 1 else ""
            video = None
            if self.SPEC.clusters == "videos":
                video = next(
                    (answer.cluster for answer in answers.values() if answer.cluster), None
                )
            item = document.Item(
                f"{self.SPEC.name}/{name}{suffix}", self.SPEC.name, **self.questions[key]
            )
            identity = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
            shown_answers = {
                run: self._shown_answer(run, answer) for run, answer in answers.items()
            }
            items.append(replace(item, answers=shown_answers, video=video, identity=identity))
        return items

    def _shown_answer(self, run: str, answer: Answer) -> document.ShownAnswer:
        """Convert an answer for the gallery, with what the harness logged.

        Args:
            run: the run's name in the gallery.
            answer: the answer.
        """
        gallery_answer = self.gallery_answer(answer)
        rating = gallery_answer.rating
        if run in self._demo_runs:
            rating = f"{document.DEMO}; {rating}" if rating else document.DEMO
        return replace(
            gallery_answer,
            prompt=answer.prompt,
            tokens=answer.tokens,
            task=answer.task,
            rating=rating or None,
        )

    @cached_property
    def _demo_runs(self) -> set[str]:
        """Names in the gallery of the runs with meaningless scores."""
        return {task.gallery for task in self.tasks if task.is_demo}


def _why_not_comparable(first: ScoredTask, second: ScoredTask) -> str:
    """Return why two tasks are not comparable; "" if they are."""
    names = dict.fromkeys(part.name for part in unequal(first, second))
    if names:
        return f"different {join_list([*names])}"
    reasons = dict.fromkeys((*first.objections, *second.objections))
    subset = first.task_run.subset
    if subset and {*(first.answers or ())} == {*(second.answers or ())}:
        # Compact runs with the same questions are comparable in this respect.
        return "; ".join(reason for reason in reasons if not reason.startswith(subset))
    return "; ".join(reasons)


def _is_change(earlier: ScoredTask, later: ScoredTask) -> bool:
    """Return true if two tasks are comparable, and of two runs of one model."""
    if earlier.run is later.run or earlier.run.base_model != later.run.base_model:
        return False
    if any(task.is_demo or task.ranking_flaw for task in (earlier, later)):
        return False
    return not unequal(earlier, later)


def _protocol(task: ScoredTask) -> Iterator[str]:
    """Yield version, judge and the other conditions that must be equal in comparable runs."""
    if task.task_run.version:
        yield f"version {task.task_run.version}"
    if task.plain_text:
        yield task.plain_text
    for name, value in (task.conditions | task.settings).items():
        if name not in _UNNAMED and value not in (None, "", NONE):
            noun = name if name in _COUNTED else name.removesuffix("s")
            text = shorten(value, _LONGEST, placeholder=" \u2026")
            yield f"{noun} {text}"


def _draw_marked(draw: "Callable[[], Drawing]") -> "Drawing":
    drawing = draw()
    drawing.supxlabel(document.DEMO)  # Below the axes, since the legend is above them.
    return drawing


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders the numbers in names by value."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts]


def read_prepared(read: Callable[[], Mapping[Key, Row]]) -> tuple[Mapping[Key, Row], str | None]:
    """Read prepared rows by question. If they cannot be read, return no rows and the reason."""
    try:
        return read(), None
    # `datasets` raises several types for missing or damaged data.
    except (OSError, ValueError) as error:
        return {}, str(error)


def with_images(rows: "Dataset", column: str) -> Iterator[tuple[dict[str, Any], document.Images]]:
    """Yield each prepared row without its images, and a function that reads them."""
    images = rows.select_columns([column])
    for index, row in enumerate(rows.remove_columns([column])):
        yield row, partial(_images, images, index)


def _images(rows: "Dataset", index: int) -> list[Image.Image]:
    """Read the images of a row whose only column has one image or a list of them."""
    (images,) = rows[index].values()
    return [image.convert("RGB") for image in (images if isinstance(images, list) else [images])]
