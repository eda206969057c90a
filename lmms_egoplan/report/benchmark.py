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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import yaml
from PIL import Image

from lmms_egoplan.judging.judgement import DEMO as DEMO_JUDGE
from lmms_egoplan.report import document
from lmms_egoplan.report.comparability import unequal
from lmms_egoplan.report.comparisons import Part, compared, finding, parts_of, ranked
from lmms_egoplan.report.ledger import runs_and_ledger
from lmms_egoplan.report.overlap import DEGREES, read_audits
from lmms_egoplan.report.panels import tables_of
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs, reference_of
from lmms_egoplan.report.run import Run, changed_settings
from lmms_egoplan.report.scores import NONE, Answer, Key, Mean, ScoredTask, mean_of
from lmms_egoplan.report.statistics import why_no_interval
from lmms_egoplan.report.tables import Column, Table, Value, columns_of, side_by_side, table_of_runs
from lmms_egoplan.text import join_list

if TYPE_CHECKING:
    from datasets import Dataset
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Inputs:
    """The inputs of a report except the runs.

    similarity: encoder for the similarity of texts, a name or a folder; None for the benchmark's
    default.
    judged: files of answers that a judge has rated several times.
    labelled: folders with people's labels, each with its benchmark (`labelled_folders`).
    """

    similarity: str | None = None
    judged: tuple[Path, ...] = ()
    labelled: Mapping[Path, str] = field(default_factory=dict, hash=False)


class TableSpec(NamedTuple):
    """The specification of a table.

    published: title if no run has a row; "" for `title`.
    notes: names of the notes. An item with several names joins their texts to one note.
    """

    title: str
    published: str = ""
    notes: Sequence[str] = ()
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True)
class Spec:
    """The specification of a benchmark's part of a report.

    name: name of the benchmark, and key of the section.
    title, lead: title and introduction of the section.
    metric, decimals: name and decimals of the main score in the summary.
    compact_title, compact_notes: title and notes of the table for a terminal.
    compact_main: label of the main score in that table.
    tables: tables by key, without the benchmark's name.
    note: function from a name in ``notes.yaml`` to the text.
    clusters: plural noun for `Answer.cluster`.
    unit, top: unit of a difference of main scores, "" for none; the highest possible score.
    panel: how judges' ratings of an answer are combined, except by their mean: ``majority``, or
        ``median`` if the ratings have many levels.
    measure, scale: key of the main score in an answer's `scores`, and the factor to multiply it by.
    group_order: order of an attribute's groups, if it is neither alphabetical nor numeric.
    reference: table and column of the published score to compare with; "" for the table's main
    column.
    caveat: see `Reference`.
    subsets: metric of each of the ledger's subsets; "" for the main score.
    ledger_fields: how each task obtains its scores, by task and by the ledger's names of fields.
        Only these tasks are compared with the ledger.
    """

    name: str
    title: str
    lead: str
    metric: str
    decimals: int
    measure: str
    compact_title: str
    compact_main: str
    tables: Mapping[str, TableSpec]
    note: Callable[..., str]
    compact_notes: Sequence[str] = ()
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


def read_spec(
    module: str,
    name: str,
    note: Callable[..., str],
    group_order: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Spec:
    """Read a benchmark's `Spec` from ``spec.yaml`` next to a module.

    In the file, lead and caveat are names of notes.

    Args:
        module: ``__file__`` of the module.
        name: name of the benchmark.
        note, group_order: see `Spec`.
    """
    entry = yaml.safe_load(Path(module).with_name("spec.yaml").read_text(encoding="utf-8"))[name]
    tables = {
        key: TableSpec(**table | {"columns": columns_of(table.get("columns", {}))})
        for key, table in entry["tables"].items()
    }
    texts = {key: note(entry[key]) for key in ("lead", "caveat") if key in entry}
    return Spec(
        **entry | texts | {"name": name, "tables": tables, "note": note, "group_order": group_order}
    )


NO_INPUTS = Inputs()
# Attributes with more groups, such as activities, have no slice. The gallery's search covers them.
_MOST_GROUPS = 24
# Conditions whose names stay plural before a value: "frames 8", but "judge gpt-4o".
_COUNTED = ("frames", "new tokens", "prompts among the model arguments")
# Longest value of a condition in a protocol, such as a system instruction.
_LONGEST = 80
_DEMO_JUDGE_NOTE = f"The judge '{DEMO_JUDGE}' only compares words, so its scores are meaningless."
_COVERAGE_NOTE = "In parentheses: coverage, the scored share of the benchmark's official questions."

Judged = tuple[str, Mapping[str, Any], dict[str, Any]]
"""A judged answer: task, the known part of the task's config, and the sample as a harness logs it."""

Task = TypeVar("Task", bound=ScoredTask)
Row = TypeVar("Row")
TableOrFigure = TypeVar("TableOrFigure", Table, document.Figure)


class BenchmarkReport(ABC, Generic[Task]):
    """A benchmark's part of a report, for runs with comparable versions of its tasks.

    SPEC: see `Spec`.
    tasks: the benchmark's tasks in the runs, read once, without those under shortcut conditions.
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

    def compact_notes(self) -> Iterable[str]:
        """Explain the measures of `cells`."""
        return self.notes(self.SPEC.compact_notes)

    def compact_tasks(self) -> Sequence[Task]:
        """Return the tasks in their order on a terminal."""
        return self.tasks

    def heading(self, task: Task) -> str:
        """Return the heading of a task's block for a terminal; "" for none."""
        return task.task

    def question_order(self, keys: Iterable[Key]) -> Iterable[Key]:
        """Sort the questions for the gallery."""
        return keys

    @cached_property
    def own_tasks(self) -> list[Task]:
        """The benchmark's own tasks, without shortcut conditions (`ScoredTask.shortcut`)."""
        return [task for task in self.tasks if task.shortcut is None]

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
    def without_model(self) -> Sequence[Task]:
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

    def panel_tables(self) -> Iterator[Table]:
        """Return the table of panels of judges, if there are any."""
        return tables_of(self.SPEC.name, self.tasks, self.SPEC.panel, self.mean_over)

    @classmethod
    def judged_samples(cls, path: Path) -> Iterable[Judged]:
        """Read the lines of a file of judged answers, in order, and score them like a harness's
        task.

        Only the benchmarks that register a `FileKind` of judged answers have such files.

        Raises:
            LmmsEgoplanError: a line is not a judged answer, or its question is not prepared.
        """
        raise NotImplementedError

    @classmethod
    def inputs_table(cls, _inputs: Inputs) -> Table | None:
        """Return the table of inputs that do not depend on a task's version; None if there are no
        such inputs.

        Raises:
            LmmsEgoplanError: an input does not have the expected form.
        """
        return None

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

    def notes(self, names: Iterable[str], **values: str) -> tuple[str, ...]:
        """Return notes by name.

        An item with several names makes one note. Values replace ``{name}`` in the texts.
        """
        return tuple(
            " ".join(self.SPEC.note(name, **values) for name in item.split()) for item in names
        )

    def table(
        self,
        key: str,
        rows: Iterable[Mapping[str, Value]],
        columns: Sequence[Column] = (),
        notes: Sequence[str] | None = None,
        **values: str,
    ) -> Table:
        """Make a table of runs.

        Args:
            key: key in `Spec.tables`.
            rows: the runs' values by column.
            columns: columns of the table. Default: those of the specification.
            notes, values: see the method `notes`. Default: the notes of the specification.
        """
        spec = self.SPEC.tables[key]
        texts = self.notes(spec.notes if notes is None else notes, **values)
        return table_of_runs(
            f"{self.SPEC.name}_{key}", spec.title, columns or spec.columns, rows, texts
        )

    def published(
        self,
        key: str,
        rows: Sequence[OwnRow] = (),
        notes: Sequence[str] | None = None,
        main: str | None = None,
    ) -> Table:
        """Put rows of runs above the rows of a published table, see `published_with_runs` and
        `table`.
        """
        spec = self.SPEC.tables[key]
        title = spec.title if rows else spec.published or spec.title
        texts = self.notes(spec.notes if notes is None else notes)
        return published_with_runs(
            title, load_table(self.SPEC.name, key), rows, spec.columns, texts, main
        )

    def subset_means(self, task: Task) -> Mapping[str, Mean]:
        """Return a task's scores by the ledger's names of subsets."""
        metrics = self.SPEC.subsets.items()
        return {
            subset: Mean(task.percent(metric)) if metric else task.main
            for subset, metric in metrics
        }

    def pairs(
        self,
        tasks: Sequence[Task],
        title: str = "",
        key: str = "comparisons",
        *,
        of_tasks: bool = False,
    ) -> Table | None:
        """Compare every pair of runs by the main score, see `compared`."""
        spec, named = self.SPEC, self.SPEC.tables.get(key, TableSpec(title))
        arguments = (f"{spec.name}_{key}", named.title, spec.decimals, spec.clusters)
        table = compared(tasks, spec.measure, *arguments, scale=spec.scale, of_tasks=of_tasks)
        return table and replace(table, notes=(*table.notes, *self.notes(named.notes)))

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
        names = list(dict.fromkeys(task.run.name for task in tasks))
        demo = dict.fromkeys(task.run.name for task in self.tasks if task.is_demo)
        notes = [
            *self.compact_notes(),
            *([_DEMO_JUDGE_NOTE] if any(task.is_by_demo for task in self.tasks) else []),
            *([f"{document.DEMO_NOTE} {', '.join(demo)}."] if demo else []),
            _COVERAGE_NOTE,
            *dict.fromkeys(
                f"{task.name}: {remark}" for task in self.tasks for remark in task.remarks
            ),
        ]
        return side_by_side(
            f"{self.SPEC.name}_compact", self.SPEC.compact_title, names, blocks, notes
        )

    def difference(self, first: Task, second: Task) -> document.Difference | None:
        """Compare two tasks' main scores over the questions with scores in both; None without such
        questions.
        """
        measure, second_answers = self.SPEC.measure, second.answers or {}
        shared: list[Answer] = []
        differences: list[float] = []
        for key, answer in (first.answers or {}).items():
            first_score = answer.scores.get(measure)
            second_score = (
                second_answers[key].scores.get(measure) if key in second_answers else None
            )
            if first_score is not None and second_score is not None:
                differences.append(first_score - second_score)
                shared.append(replace(answer, scores={measure: first_score - second_score}))
        if not shared:
            return None
        mean = self.mean_of_differences(shared)
        names = dict.fromkeys(part.name for part in unequal(first, second))
        # Compact runs with the same questions are comparable in this respect.
        equal = (
            ({*(first.answers or ())} == {*second_answers}) and first.task_run.subset
        ) or "no subset"
        reasons = "; ".join(
            dict.fromkeys(
                x for x in first.objections + second.objections if not x.startswith(equal)
            )
        )
        return document.Difference(
            first=first.run.name,
            second=second.run.name,
            task=first.task,
            value=mean.value or 0.0,
            low=mean.ends[0],
            high=mean.ends[1],
            questions=len(shared),
            won=sum(value > 0 for value in differences),
            lost=sum(value < 0 for value in differences),
            no_interval=self._why_no_interval(mean),
            why=f"different {join_list([*names])}" if names else reasons,
        )

    @cached_property
    def differences(self) -> tuple[document.Difference, ...]:
        """The differences of every two runs in the summary that have the same task."""
        tasks = self.summary_tasks()
        pairs = (
            self.difference(*pair)
            for pair in combinations(tasks, 2)
            if pair[0].task == pair[1].task
        )
        return tuple(pair for pair in pairs if pair is not None)

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
            protocol=", ".join((task.task, *self._protocol(task))),
            gallery=task.gallery,
        )

    def _protocol(self, task: Task) -> Iterator[str]:
        """Yield version, judge and the other conditions that must be equal in comparable runs."""
        if task.task_run.version:
            yield f"version {task.task_run.version}"
        if task.plain_text:
            yield task.plain_text
        for name, value in (task.conditions | task.settings).items():
            if name not in ("tasks", "chat templates") and value not in (None, "", NONE):
                text = shorten(value, _LONGEST, placeholder=" \u2026")
                yield f"{name if name in _COUNTED else name.removesuffix('s')} {text}"

    def _why_no_interval(self, mean: Mean) -> str:
        if mean.interval:
            return ""
        if mean.drawn is not None:
            return why_no_interval(mean.drawn, "questions")
        return why_no_interval(mean.clusters, self.SPEC.clusters)

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
            key: self.question(key, [*of_runs.values()]) for key, of_runs in self.answers.items()
        }
        for name, audit in read_audits(self.labelled(), self.main_tasks()):
            for key, of_runs in self.answers.items():
                # Answers without a score may have no video.
                if answer := next((x for x in of_runs.values() if x.cluster), None):
                    questions[key]["facts"][name] = audit.questions.get(
                        f"{answer.cluster} {answer.id}", DEGREES[-1]
                    )
        return questions

    def slices(self) -> Iterator[document.Slice]:
        """Split the main score by each attribute of the questions and by people's labels."""
        for name in dict.fromkeys(
            name for question in self.questions.values() for name in question["facts"]
        ):
            yield from self._slice(
                name, lambda name, _, answer: self.questions[answer.key]["facts"].get(name)
            )
        labels: dict[str, None] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                labels |= dict.fromkeys(self.labels(task, answer))
        for name in labels:
            for part in self._slice(
                name, lambda name, task, answer: self.labels(task, answer).get(name)
            ):
                yield replace(part, is_fact=False)

    def _slice(
        self, attribute: str, group_of: Callable[[str, Task, Answer], str | None]
    ) -> Iterator[document.Slice]:
        members: dict[str, dict[str, list[Answer]]] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                group = group_of(attribute, task, answer)
                if group is not None:
                    members.setdefault(group, {}).setdefault(task.gallery, []).append(answer)
        if not (members.keys() & {*DEGREES} or 2 <= len(members) <= _MOST_GROUPS):
            return
        order = [*self.SPEC.group_order.get(attribute, DEGREES)]
        names = sorted(
            members,
            key=lambda name: (order.index(name) if name in order else len(order), _natural(name)),
        )
        pairs = [(name, *pair) for name in names for pair in members[name].items()]
        groups = (self._group(name, run, self.mean_over(answers)) for name, run, answers in pairs)
        yield document.Slice(attribute, tuple(groups))

    def _group(self, name: str, run: str, mean: Mean) -> document.Group:
        why = self._why_no_interval(mean)
        return document.Group(name, run, mean.value, mean.interval, why, mean.questions or 0)

    def remarks(self) -> Iterator[str]:
        """Describe flaws and gaps of the runs, each in a sentence or two."""
        tasks, names = [*self.own_tasks, *self.shortcuts], dict[str, list[str]]()
        for task in tasks:
            for text in (*self.flaws(task), *task.remarks):
                names.setdefault(text, []).append(task.name)
        yield from (f"{join_list(of_text, 8)}: {text}" for text, of_text in names.items())
        if demo := [task.name for task in tasks if task.is_demo]:
            yield f"{document.DEMO_NOTE} {', '.join(demo)}."
        yield from self.gaps()

    def section(self) -> document.Section | None:
        """Return the benchmark's part of the page; None if there are neither runs of its tasks nor
        labels.

        Without runs, the section has only the tables and figures that labels fill.

        Raises:
            LmmsEgoplanError: an input cannot be used.
        """
        if not self.tasks:
            tables = tuple(
                self._marked(table)
                for table in self.tables()
                if table is not None and table.has_own
            )
            figures = tuple(self._marked(figure) for figure in self.figures() if figure is not None)
            spec, remarks = self.SPEC, tuple(self.remarks()) if self.shortcuts else ()
            return (
                document.Section(spec.name, spec.title, spec.lead, (), tables, figures, remarks)
                if tables
                else None
            )
        fields = self.SPEC.ledger_fields
        means = ((task, self.subset_means(task)) for task in self.tasks if task.task in fields)
        all_tables = (
            *self.tables(),
            *self.panel_tables(),
            runs_and_ledger(self.SPEC.name, means, fields),
        )
        return replace(
            self.scores_section(),
            tables=tuple(
                self._marked(part)
                for table in all_tables
                if table and table.rows
                for part in table.parted()
            ),
            figures=tuple(self._marked(figure) for figure in self.figures() if figure is not None),
            remarks=tuple(self.remarks()),
            slices=tuple(self.slices()),
            changes=tuple(self.changes()),
            baselines=tuple(self._group(x.task, x.run.name, x.main) for x in self.without_model),
        )

    def changes(self) -> Iterator[document.Change]:
        """Yield every two comparable runs of one model in one task, the earlier one first."""
        for earlier, later in combinations(
            sorted(self.main_tasks(), key=lambda task: task.run.time), 2
        ):
            is_pair = (
                earlier.run is not later.run and earlier.run.base_model == later.run.base_model
            )
            is_usable = not any(task.is_demo or task.inexact for task in (earlier, later))
            is_comparable = is_pair and is_usable and not unequal(earlier, later)
            if is_comparable and (difference := self.difference(later, earlier)) is not None:
                yield document.Change(
                    task=later.task,
                    difference=difference,
                    earlier=(earlier.run.time, earlier.main.value),
                    later=(later.run.time, later.main.value),
                    changed=tuple(changed_settings(earlier.run.provenance, later.run.provenance)),
                    gallery=(earlier.gallery, later.gallery),
                )

    def _marked(self, part: TableOrFigure) -> TableOrFigure:
        """Mark a table or figure with scores of the demo as meaningless, in its title."""
        if not any(task.is_demo for task in (*self.tasks, *self.shortcuts)):
            return part
        title = f"{part.title} ({document.DEMO})"
        if isinstance(part, document.Figure):
            return replace(part, title=title, draw=partial(_draw_marked, part.draw))
        return replace(part, title=title) if part.has_own else part

    def scores_section(self) -> document.Section:
        """Return the section for a terminal: without tables, figures, remarks, slices and changes."""
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

    def items(self) -> list[document.Item]:
        """Return the questions for the gallery, with the logged answers."""
        demo = {task.gallery: document.DEMO for task in self.tasks if task.is_demo}
        items: list[document.Item] = []
        uses: dict[str, int] = {}
        is_of_video = self.SPEC.clusters == "videos"
        for key in self.question_order(self.answers):
            name = next(iter(self.answers[key].values())).id
            uses[name] = uses.get(name, 0) + 1
            suffix = f" ({uses[name]})" if uses[name] > 1 else ""
            of_runs = {}
            for run, answer in self.answers[key].items():
                gallery_answer = self.gallery_answer(answer)
                rating = "; ".join(filter(None, [demo.get(run), gallery_answer.rating])) or None
                logged = replace(
                    gallery_answer, prompt=answer.prompt, tokens=answer.tokens, task=answer.task
                )
                of_runs[run] = replace(logged, rating=rating)
            video = next(
                (x.cluster for x in self.answers[key].values() if x.cluster and is_of_video), None
            )
            item = document.Item(
                f"{self.SPEC.name}/{name}{suffix}", self.SPEC.name, **self.questions[key]
            )
            identity = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
            items.append(replace(item, answers=of_runs, video=video, identity=identity))
        return items


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
    except (
        OSError,
        ValueError,
    ) as error:  # `datasets` raises several types for missing or damaged data.
        return {}, str(error)


def with_images(rows: "Dataset", column: str) -> Iterator[tuple[dict[str, Any], document.Images]]:
    """Yield each prepared row without its images, and a function that reads them."""
    images = rows.select_columns([column])
    for index, row in enumerate(rows.remove_columns([column])):
        yield row, partial(_images, images, index)


def _images(rows: "Dataset", index: int) -> list[Image.Image]:
    (images,) = rows[index].values()
    return [image.convert("RGB") for image in (images if isinstance(images, list) else [images])]


class ReportedBenchmark(Protocol):
    """A benchmark of the registry."""

    @property
    def name(self) -> str:
        """The benchmark's name: prefix of its tasks' names, and key of its section."""

    @property
    def title(self) -> str:
        """The benchmark's name in messages."""

    def load_report(self) -> type[BenchmarkReport]:
        """Load the benchmark's part of reports."""


def read_reports(
    runs: Sequence[Run], benchmarks: Iterable[ReportedBenchmark], inputs: Inputs = NO_INPUTS
) -> Iterator[tuple[Part, BenchmarkReport[Any]]]:
    """Make each benchmark's reports, one per part of comparable runs (`parts_of`).

    Raises:
        LmmsEgoplanError: see `BenchmarkReport`.
    """
    for benchmark in benchmarks:
        for part in parts_of(benchmark.name, runs):
            yield part, benchmark.load_report()(part.runs, inputs)
