"""A benchmark's part of a report; the caller of a report passes the benchmarks."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from PIL import Image

from lmms_egoplan.report.document import (
    DEMO,
    DEMO_NOTE,
    Change,
    Difference,
    Figure,
    Group,
    Headline,
    Images,
    Item,
    Reference,
    Section,
    ShownAnswer,
    Slice,
    Table,
)
from lmms_egoplan.report.findings import finding, ranked
from lmms_egoplan.report.provenance import changed_settings
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Answer, Key, Mean, Scored, ScoredTask, mean_of
from lmms_egoplan.report.statistics import why_no_interval

if TYPE_CHECKING:
    from datasets import Dataset
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Inputs:
    """The inputs of a report except the runs.

    similarity: the encoder that measures how similar texts are, a name or a folder; None for the benchmark's own.
    judged: files of answers that a judge has rated several times.
    labelled: folders with labels by people, each with its benchmark (`labelled_folders`).
    """

    similarity: str | None = None
    judged: tuple[Path, ...] = ()
    labelled: Mapping[Path, str] = field(default_factory=dict, hash=False)


NO_INPUTS = Inputs()
# Attributes with more groups, such as an activity, have no slice; use the gallery's search.
_MOST_GROUPS = 24

Judged = tuple[str, Mapping[str, Any], dict[str, Any]]
"""A judged answer: its task, the known part of the task's config, and the sample as a harness logs it."""

Task = TypeVar("Task", bound=Scored)
Row = TypeVar("Row")
Part = TypeVar("Part", Table, Figure)


class BenchmarkReport(ABC, Generic[Task]):
    """A benchmark's part of a report, over runs with comparable versions of its tasks.

    NAME: the benchmark's; the key of the section.
    TITLE, LEAD: of the section.
    METRIC, DECIMALS: name and decimals of the main score in the summary.
    UNIT, TOP: unit of a difference of main scores, "" for none; the highest possible score.
    CLUSTERS: plural noun for `Answer.cluster`.
    MEASURE, SCALE: the main score of an answer among its `scores`, "" for `METRIC`, and its factor.
    GROUP_ORDER: groups of an attribute in order, where that is neither alphabetical nor numeric.
    tasks: the benchmark's tasks in the runs, read once.
    """

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    LEAD: ClassVar[str]
    METRIC: ClassVar[str]
    DECIMALS: ClassVar[int]
    UNIT: ClassVar[str] = "points"
    TOP: ClassVar[float] = 100
    CLUSTERS: ClassVar[str] = "questions"
    MEASURE: ClassVar[str] = ""
    SCALE: ClassVar[float] = 1
    GROUP_ORDER: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> None:
        """Read the runs' samples.

        Raises:
            LmmsEgoplanError: a sample is not of the form that the tasks log, or a question appears twice.
        """
        self.inputs = inputs
        self.tasks = self.read(runs)

    @abstractmethod
    def read(self, runs: Sequence[Run]) -> list[Task]:
        """Read the benchmark's tasks in these runs.

        Raises:
            LmmsEgoplanError: see `read_answers`.
        """

    @abstractmethod
    def tables(self) -> Iterable[Table | None]:
        """Return the tables in order; None for one that these runs do not fill."""

    def figures(self) -> Iterable[Figure | None]:
        """Return the figures in order; None for one that these runs do not fill."""
        return ()

    def flaws(self, _task: Task) -> Iterable[str]:
        """Describe flaws and gaps of a run, in sentences that continue after its name."""
        return ()

    def gaps(self) -> Iterable[str]:
        """Describe the runs together, and gaps of the prepared data."""
        return ()

    @abstractmethod
    def compact_table(self) -> Table:
        """Return the table of main scores for a terminal."""

    @abstractmethod
    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the fields of a question's `Item` except its answers; at least one is passed."""

    @abstractmethod
    def shown(self, answer: Answer) -> ShownAnswer:
        """Return an answer for the gallery."""

    @cached_property
    def asked(self) -> set[Key]:
        """The questions of all tasks with samples."""
        return {key for task in self.tasks for key in task.answers or ()}

    def gallery_name(self, task: Task) -> str:
        """Return the name of a task's answers in the gallery."""
        return task.name

    def question_order(self, keys: Iterable[Key]) -> Iterable[Key]:
        """Sort the questions for the gallery."""
        return keys

    def labelled(self) -> list[Path]:
        """List the folders with people's labels of the benchmark."""
        return [path for path, name in self.inputs.labelled.items() if name == self.NAME]

    def main_tasks(self) -> list[Task]:
        """Return the tasks of the summary, each at most once a run."""
        return self.tasks

    def further_tasks(self) -> list[Task]:
        """Return further tasks whose scores belong in a model card."""
        return []

    def reference(self) -> Reference | None:
        """Return the published score to compare with; None for none."""
        return None

    def labels(self, _task: Task, _answer: Answer) -> Mapping[str, str]:
        """Return people's labels of an answer, by attribute."""
        return {}

    def mean_of_scores(self, answers: Sequence[Answer]) -> Mean:
        """Compute the main score over some answers from their `scores` alone."""
        return mean_of(answers, self.MEASURE or self.METRIC, self.SCALE)

    def mean_over(self, _task: Task, answers: Sequence[Answer]) -> Mean:
        """Compute the main score of a task over some of its answers."""
        return self.mean_of_scores(answers)

    def difference(self, first: Task, second: Task) -> Difference | None:
        """Compare main scores over the questions for which both have one; None without any."""
        measure, others = self.MEASURE or self.METRIC, second.answers or {}
        shared: list[Answer] = []
        differences: list[float] = []
        for key, answer in (first.answers or {}).items():
            own = answer.scores.get(measure)
            other = others[key].scores.get(measure) if key in others else None
            if own is not None and other is not None:
                differences.append(own - other)
                shared.append(replace(answer, scores={measure: own - other}))
        if not shared:
            return None
        mean = self.mean_of_scores(shared)
        unlike = [name for name, value in first.conditions.items() if value != second.conditions[name]]
        apart = "; ".join(dict.fromkeys((*first.apart, *second.apart)))
        return Difference(
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
            why=f"different {' and '.join(unlike)}" if unlike else apart,
        )

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The differences of every two runs in the summary that share a task."""
        pairs = (self.difference(*pair) for pair in combinations(self.main_tasks(), 2) if pair[0].task == pair[1].task)
        return tuple(pair for pair in pairs if pair is not None)

    @cached_property
    def headlines(self) -> list[Headline]:
        """The main scores for the summary."""
        return ranked([self.headline(task) for task in self.main_tasks()], self.differences)

    def headline(self, task: Task) -> Headline:
        """Return the main score of a task for the summary."""
        main = task.main
        shown = (task.task, *(f"{name} {value}" for name, value in self.protocol(task).items()))
        return Headline(
            task.run.name, self.TITLE, task.task, self.METRIC, main.value, self.DECIMALS, main.interval, main.questions,
            task.coverage, task.truncated, no_interval="" if main.value is None else self._why_no_interval(main),
            apart=task.apart, is_demo=task.is_demo, protocol=", ".join(shown),
            gallery=self.gallery_name(task),
        )  # fmt: skip

    def protocol(self, task: Task) -> dict[str, str]:
        """Return version, judge and all else that must be equal in comparable runs."""
        versions = {task_run.version for task_run in task.run.tasks.values() if task_run.version}
        own = task.task_run.version if isinstance(task, ScoredTask) else "/".join(sorted(versions))
        named = {name.removesuffix("s"): value for name, value in task.conditions.items() if name != "tasks" and value}
        return ({"version": own} if own else {}) | named

    def _why_no_interval(self, mean: Mean) -> str:
        return "" if mean.interval else why_no_interval(mean.clusters, self.CLUSTERS)

    @cached_property
    def questions(self) -> dict[Key, dict[str, Any]]:
        """The fields of each question's `Item`."""
        answers: dict[Key, list[Answer]] = {}
        for task in self.tasks:
            for key, answer in (task.answers or {}).items():
                answers.setdefault(key, []).append(answer)
        return {key: self.question(key, of_key) for key, of_key in answers.items()}

    def slices(self) -> Iterator[Slice]:
        """Split the main score by each attribute of the questions and by people's labels."""
        for name in dict.fromkeys(name for question in self.questions.values() for name in question["facts"]):
            yield from self._slice(name, lambda name, _, answer: self.questions[answer.key]["facts"].get(name))
        labels: dict[str, None] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                labels |= dict.fromkeys(self.labels(task, answer))
        for name in labels:
            for part in self._slice(name, lambda name, task, answer: self.labels(task, answer).get(name)):
                yield replace(part, is_fact=False)

    def _slice(self, attribute: str, group_of: Callable[[str, Task, Answer], str | None]) -> Iterator[Slice]:
        members: dict[str, dict[str, tuple[Task, list[Answer]]]] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                group = group_of(attribute, task, answer)
                if group is not None:
                    members.setdefault(group, {}).setdefault(self.gallery_name(task), (task, []))[1].append(answer)
        if not 2 <= len(members) <= _MOST_GROUPS:
            return
        order = [*self.GROUP_ORDER.get(attribute, ())]
        names = sorted(members, key=lambda name: (order.index(name) if name in order else len(order), _natural(name)))
        groups = []
        for name in names:
            for run, (task, answers) in members[name].items():
                mean = self.mean_over(task, answers)
                groups.append(
                    Group(name, run, mean.value, mean.interval, self._why_no_interval(mean), mean.questions or 0)
                )
        yield Slice(attribute, tuple(groups))

    def remarks(self) -> Iterator[str]:
        """Describe flaws and gaps of the runs, in a sentence or two each."""
        names: dict[str, list[str]] = {}
        for task in self.tasks:
            for text in (*self.flaws(task), *filter(None, [task.asked_of])):
                names.setdefault(text, []).append(task.name)
        yield from (f"{', '.join(of_text)}: {text}" for text, of_text in names.items())
        if demo := [task.name for task in self.tasks if task.is_demo]:
            yield f"{DEMO_NOTE} {', '.join(demo)}."
        yield from self.gaps()

    @classmethod
    def judged_samples(cls, path: Path) -> Iterable[Judged]:
        """Read the lines of a file of judged answers, in order, scored as a harness's task scores them.

        Only the benchmarks that ``file_kinds.yaml`` names under ``judged`` have such files.

        Raises:
            LmmsEgoplanError: a line is no judged answer, or its question is not prepared.
        """
        raise NotImplementedError

    @classmethod
    def inputs_table(cls, _inputs: Inputs) -> Table | None:
        """Return the table of inputs that belong to no version of a task; None without any.

        Raises:
            LmmsEgoplanError: they are of another form.
        """
        return None

    def section(self) -> Section | None:
        """Return the benchmark's part of the page; None if the runs have none of its tasks, and there are no labels.

        With labels alone, it has the tables and figures that they fill.

        Raises:
            LmmsEgoplanError: an input cannot be used.
        """
        if not self.tasks:
            tables = tuple(table for table in self.tables() if table is not None and table.has_own)
            figures = tuple(figure for figure in self.figures() if figure is not None)
            return Section(self.NAME, self.TITLE, self.LEAD, (), tables, figures) if tables else None
        return replace(
            self.scores_section(),
            tables=tuple(self._marked(part) for table in self.tables() if table is not None for part in table.parted()),
            figures=tuple(self._marked(figure) for figure in self.figures() if figure is not None),
            remarks=tuple(self.remarks()),
            slices=tuple(self.slices()),
            changes=tuple(self.changes()),
        )

    def changes(self) -> Iterator[Change]:
        """Yield every two comparable runs of one model in one task, the earlier one first."""
        for earlier, later in combinations(sorted(self.main_tasks(), key=lambda task: task.run.time), 2):
            is_pair = earlier.run is not later.run and earlier.run.base_model == later.run.base_model
            is_usable = not any(task.is_demo or task.inexact for task in (earlier, later))
            is_comparable = is_pair and is_usable and earlier.conditions == later.conditions
            if is_comparable and (difference := self.difference(later, earlier)) is not None:
                yield Change(
                    task=later.task,
                    difference=difference,
                    earlier=(earlier.run.time, earlier.main.value),
                    later=(later.run.time, later.main.value),
                    changed=tuple(changed_settings(earlier.run.provenance, later.run.provenance)),
                    gallery=(self.gallery_name(earlier), self.gallery_name(later)),
                )

    def _marked(self, part: Part) -> Part:
        """Mark the demo's scores as meaningless in the title of a table or figure that has any."""
        if not any(task.is_demo for task in self.tasks):
            return part
        title = f"{part.title} ({DEMO})"
        if isinstance(part, Figure):
            return replace(part, title=title, draw=partial(_draw_marked, part.draw))
        return replace(part, title=title) if part.has_own else part

    def scores_section(self) -> Section:
        """Return the section without tables, figures, remarks, slices and changes, for a terminal."""
        reference = self.reference()
        return Section(
            self.NAME,
            self.TITLE,
            self.LEAD,
            tuple(self.headlines),
            finding=finding(self.TITLE, self.headlines, self.differences, reference, self.UNIT),
            unit=self.UNIT,
            top=self.TOP,
            reference=reference,
            differences=self.differences,
            further=tuple(self.headline(task) for task in self.further_tasks()),
        )

    def items(self) -> list[Item]:
        """Return the questions for the gallery, with the logged answers."""
        answers: dict[Key, dict[str, Answer]] = {}
        demo = {self.gallery_name(task): DEMO for task in self.tasks if task.is_demo}
        for task in self.tasks:
            name = self.gallery_name(task)
            for key, answer in (task.answers or {}).items():
                answers.setdefault(key, {})[name] = answer
        items: list[Item] = []
        uses: dict[str, int] = {}
        for key in self.question_order(answers):
            name = next(iter(answers[key].values())).id
            uses[name] = uses.get(name, 0) + 1
            again = f" ({uses[name]})" if uses[name] > 1 else ""
            of_runs = {}
            for run, answer in answers[key].items():
                shown = self.shown(answer)
                rating = "; ".join(filter(None, [demo.get(run), shown.rating])) or None
                of_runs[run] = replace(shown, rating=rating, prompt=answer.prompt, tokens=answer.tokens)
            question = self.questions[key]
            items.append(Item(key=f"{self.NAME}/{name}{again}", benchmark=self.NAME, answers=of_runs, **question))
        return items


def _draw_marked(draw: "Callable[[], Drawing]") -> "Drawing":
    drawing = draw()
    drawing.suptitle(DEMO)
    return drawing


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts the numbers in names by value."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts]


def read_prepared(read: Callable[[], Mapping[Key, Row]]) -> tuple[Mapping[Key, Row], str | None]:
    """Read prepared rows by question; without any, return the reason."""
    try:
        return read(), None
    except (OSError, ValueError) as error:  # `datasets` raises many kinds for missing or damaged data.
        return {}, str(error)


def with_images(rows: "Dataset", column: str) -> Iterator[tuple[dict[str, Any], Images]]:
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
        """Prefix of its tasks' names; the key of its section."""

    @property
    def title(self) -> str:
        """Name for messages."""

    def load_report(self) -> type[BenchmarkReport]:
        """Load its part of reports."""
