"""What a report needs of a benchmark; who asks for a report hands the benchmarks over."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from lmms_egoplan.report.changes import changes
from lmms_egoplan.report.document import (
    DEMO,
    DEMO_NOTE,
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
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Answer, Key, Mean, Scored, ScoredTask, mean_of
from lmms_egoplan.report.statistics import why_no_interval

if TYPE_CHECKING:
    from datasets import Dataset
    from matplotlib.figure import Figure as Drawing
    from PIL import Image


@dataclass(frozen=True)
class Inputs:
    """What a report is made from beside the runs; a benchmark takes what is its own.

    similarity: the encoder that measures how similar texts are, a name or a folder; None for the benchmark's own.
    judged: files of answers that a judge has rated several times.
    labelled: folders with labels by people, each with its benchmark (`labelled_folders`).
    """

    similarity: str | None = None
    judged: tuple[Path, ...] = ()
    labelled: Mapping[Path, str] = field(default_factory=dict, hash=False)


NO_INPUTS = Inputs()
# An attribute with more groups, such as an activity, is for the gallery's search.
_MOST_GROUPS = 24

Judged = tuple[str, Mapping[str, Any], dict[str, Any]]
"""A judged answer: its task, what is known of the task's config, and the sample as a harness logs it."""

Task = TypeVar("Task", bound=Scored)
Row = TypeVar("Row")
Part = TypeVar("Part", Table, Figure)


class BenchmarkReport(ABC, Generic[Task]):
    """A benchmark's part of a report, over runs whose tasks' versions compare.

    NAME: the benchmark's; the key of the section.
    TITLE, LEAD: of the section.
    METRIC, DECIMALS: the main score, as the summary names and shows it.
    UNIT, TOP: what stands behind a difference of main scores, "" for nothing; the highest score that there can be.
    CLUSTERS: what `Answer.cluster` is, in the plural.
    MEASURE, SCALE: the main score of an answer among its `scores`, "" for `METRIC`; what it is multiplied by.
    tasks: what the runs have of the benchmark, which is read once.
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

    def __init__(self, runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> None:
        """Read the runs' samples.

        Raises:
            LmmsEgoplanError: a sample is not of the form that the tasks log, or a question is there twice.
        """
        self.inputs = inputs
        self.tasks = self.read(runs)

    @abstractmethod
    def read(self, runs: Sequence[Run]) -> list[Task]:
        """The benchmark's tasks in these runs.

        Raises:
            LmmsEgoplanError: see `read_answers`.
        """

    @abstractmethod
    def tables(self) -> Iterable[Table | None]:
        """In their order; None for one that these runs do not fill."""

    def figures(self) -> Iterable[Figure | None]:
        """In their order; None for one that these runs do not fill."""
        return ()

    def flaws(self, task: Task) -> Iterable[str]:
        """What is wrong with or missing from a run: sentences to go on after its name."""
        return ()

    def gaps(self) -> Iterable[str]:
        """What is to be known of the runs together, and what the prepared data lack."""
        return ()

    @abstractmethod
    def compact_table(self) -> Table:
        """Main scores, for a terminal."""

    @abstractmethod
    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """What the gallery shows of a question beside its answers, one at least: fields of `Item`."""

    @abstractmethod
    def shown(self, answer: Answer) -> ShownAnswer:
        """An answer as the gallery shows it."""

    @cached_property
    def asked(self) -> set[Key]:
        """The questions of all tasks, as far as there are samples."""
        return {key for task in self.tasks for key in task.answers or ()}

    def gallery_name(self, task: Task) -> str:
        """The name under which the gallery has a task's answers."""
        return task.name

    def question_order(self, keys: Iterable[Key]) -> Iterable[Key]:
        """The questions in the gallery's order."""
        return keys

    def labelled(self) -> list[Path]:
        """The folders with people's labels of the benchmark."""
        return [path for path, name in self.inputs.labelled.items() if name == self.NAME]

    def main_tasks(self) -> list[Task]:
        """The tasks that the summary is of, each at most once a run."""
        return self.tasks

    def further_tasks(self) -> list[Task]:
        """Tasks beside the main ones whose scores belong into a model card."""
        return []

    def reference(self) -> Reference | None:
        """The published score that runs are measured by; None for none."""
        return None

    def group_order(self, attribute: str) -> Sequence[str]:
        """The groups of an attribute in their order, where that is not the alphabet's or that of numbers."""
        return ()

    def labels(self, task: Task, answer: Answer) -> Mapping[str, str]:
        """What people said of an answer, by what they were asked."""
        return {}

    def mean_of_scores(self, answers: Sequence[Answer]) -> Mean:
        """The main score over some answers, by their `scores` alone."""
        return mean_of(answers, self.MEASURE or self.METRIC, self.SCALE)

    def mean_over(self, task: Task, answers: Sequence[Answer]) -> Mean:
        """The main score of a task over some of its answers."""
        return self.mean_of_scores(answers)

    def difference(self, first: Task, second: Task) -> Difference | None:
        """Of the main scores, over the questions that both have it for; None where there are none."""
        measure, theirs = self.MEASURE or self.METRIC, second.answers or {}
        shared = [
            replace(answer, scores={measure: answer.scores[measure] - theirs[key].scores[measure]})
            for key, answer in (first.answers or {}).items()
            if key in theirs and None not in (answer.scores.get(measure), theirs[key].scores.get(measure))
        ]
        if not shared:
            return None
        mean = self.mean_of_scores(shared)
        unlike = [name for name, value in first.conditions.items() if value != second.conditions[name]]
        why = f"different {' and '.join(unlike)}" if unlike else "; ".join(dict.fromkeys((*first.apart, *second.apart)))
        return Difference(
            first=first.run.name,
            second=second.run.name,
            task=first.task,
            value=mean.value or 0.0,
            low=mean.ends[0],
            high=mean.ends[1],
            questions=len(shared),
            won=sum(answer.scores[measure] > 0 for answer in shared),
            lost=sum(answer.scores[measure] < 0 for answer in shared),
            no_interval=self._why_no_interval(mean),
            why=why,
        )

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Of every two runs in the summary that have a task in common."""
        pairs = (self.difference(*pair) for pair in combinations(self.main_tasks(), 2) if pair[0].task == pair[1].task)
        return tuple(pair for pair in pairs if pair is not None)

    @cached_property
    def headlines(self) -> list[Headline]:
        """Main scores, for the summary."""
        return ranked([self.headline(task) for task in self.main_tasks()], self.differences)

    def headline(self, task: Task) -> Headline:
        """The main score of a task, for the summary."""
        main = task.main
        shown = (task.task, *(f"{name} {value}" for name, value in self.protocol(task).items()))
        return Headline(
            task.run.name, self.TITLE, task.task, self.METRIC, main.value, self.DECIMALS, main.interval, main.questions,
            task.coverage, task.truncated, no_interval="" if main.value is None else self._why_no_interval(main),
            apart=task.apart, is_demo=task.is_demo, protocol=", ".join(shown),
            gallery=self.gallery_name(task),
        )  # fmt: skip

    def protocol(self, task: Task) -> dict[str, str]:
        """What a score was made by: version, judge and what else must be the same in runs that are compared."""
        versions = {task_run.version for task_run in task.run.tasks.values() if task_run.version}
        own = task.task_run.version if isinstance(task, ScoredTask) else "/".join(sorted(versions))
        named = {name.removesuffix("s"): value for name, value in task.conditions.items() if name != "tasks" and value}
        return ({"version": own} if own else {}) | named

    def _why_no_interval(self, mean: Mean) -> str:
        return "" if mean.interval else why_no_interval(mean.clusters, self.CLUSTERS)

    @cached_property
    def questions(self) -> dict[Key, dict[str, Any]]:
        """What the gallery shows of each question."""
        found: dict[Key, list[Answer]] = {}
        for task in self.tasks:
            for key, answer in (task.answers or {}).items():
                found.setdefault(key, []).append(answer)
        return {key: self.question(key, answers) for key, answers in found.items()}

    def slices(self) -> Iterator[Slice]:
        """The main score by each attribute of the questions and by people's labels, as far as there are groups."""
        names = list(dict.fromkeys(name for shown in self.questions.values() for name in shown["facts"]))
        for name in names:
            yield from self._slice(name, lambda task, answer, name=name: self.questions[answer.key]["facts"].get(name))
        labels: dict[str, None] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                labels |= dict.fromkeys(self.labels(task, answer))
        for name in labels:
            for found in self._slice(name, lambda task, answer, name=name: self.labels(task, answer).get(name)):
                yield replace(found, is_fact=False)

    def _slice(self, attribute: str, group_of: Callable[[Task, Answer], str | None]) -> Iterator[Slice]:
        members: dict[str, dict[str, tuple[Task, list[Answer]]]] = {}
        for task in self.main_tasks():
            for answer in (task.answers or {}).values():
                group = group_of(task, answer)
                if group is not None:
                    members.setdefault(group, {}).setdefault(self.gallery_name(task), (task, []))[1].append(answer)
        if not 2 <= len(members) <= _MOST_GROUPS:
            return
        order = [*self.group_order(attribute)]
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
        """What is wrong with or missing from the runs, a sentence or two each."""
        names: dict[str, list[str]] = {}
        for task in self.tasks:
            for text in (*self.flaws(task), *filter(None, [task.asked_of])):
                names.setdefault(text, []).append(task.name)
        yield from (f"{', '.join(concerned)}: {text}" for text, concerned in names.items())
        if demo := [task.name for task in self.tasks if task.is_demo]:
            yield f"{DEMO_NOTE} {', '.join(demo)}."
        yield from self.gaps()

    @classmethod
    def judged_samples(cls, path: Path) -> Iterable[Judged]:
        """Read the lines of a file of judged answers, in order, scored as a harness's task scores them.

        Raises:
            LmmsEgoplanError: a line holds something else, or an answer to a question that is not prepared.
        """
        return ()

    @classmethod
    def inputs_table(cls, inputs: Inputs) -> Table | None:
        """The table of inputs that are of no version of a task; None where there are none.

        Raises:
            LmmsEgoplanError: they are not of the form that is read.
        """
        return None

    def section(self) -> Section | None:
        """The benchmark's part of the page; None where no run has one of its tasks, and people have not labelled.

        Of labels alone, it has the tables and figures that they fill.

        Raises:
            LmmsEgoplanError: an input cannot be used.
        """
        if not self.tasks:
            filled = [table for table in self.tables() if table is not None and any(row.is_own for row in table.rows)]
            figures = tuple(figure for figure in self.figures() if figure is not None)
            return Section(self.NAME, self.TITLE, self.LEAD, (), tuple(filled), figures) if filled else None
        return replace(
            self.scores_section(),
            tables=tuple(self._marked(part) for table in self.tables() if table is not None for part in table.parted()),
            figures=tuple(self._marked(figure) for figure in self.figures() if figure is not None),
            remarks=tuple(self.remarks()),
            slices=tuple(self.slices()),
            changes=tuple(changes(self.main_tasks(), self.difference, self.gallery_name)),
        )

    def _marked(self, part: Part) -> Part:
        """A table or figure with a title that marks the demo's scores as meaningless, if it shows any."""
        shows_runs = isinstance(part, Figure) or any(row.is_own for row in part.rows)
        is_demo = shows_runs and any(task.is_demo for task in self.tasks)
        if not is_demo:
            return part
        drawn = {"draw": partial(_draw_marked, part.draw)} if isinstance(part, Figure) else {}
        return replace(part, title=f"{part.title} ({DEMO})", **drawn)

    def scores_section(self) -> Section:
        """The section without tables, figures, remarks, slices and changes, for a terminal."""
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
        """The questions for the gallery, with what the runs with samples answered."""
        found: dict[Key, dict[str, Answer]] = {}
        demo = {self.gallery_name(task): DEMO for task in self.tasks if task.is_demo}
        for task in self.tasks:
            name = self.gallery_name(task)
            for key, answer in (task.answers or {}).items():
                found.setdefault(key, {})[name] = answer
        items: list[Item] = []
        uses: dict[str, int] = {}
        for key in self.question_order(found):
            name = next(iter(found[key].values())).id
            uses[name] = uses.get(name, 0) + 1
            again = f" ({uses[name]})" if uses[name] > 1 else ""
            answers = {}
            for run, answer in found[key].items():
                shown = self.shown(answer)
                rating = "; ".join(filter(None, [demo.get(run), shown.rating])) or None
                answers[run] = replace(shown, rating=rating, prompt=answer.prompt, tokens=answer.tokens)
            shown = self.questions[key]
            items.append(Item(key=f"{self.NAME}/{name}{again}", benchmark=self.NAME, answers=answers, **shown))
        return items


def _draw_marked(draw: "Callable[[], Drawing]") -> "Drawing":
    drawing = draw()
    drawing.suptitle(DEMO)
    return drawing


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Numbers in a name count as such."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts]


def read_prepared(read: Callable[[], Mapping[Key, Row]]) -> tuple[Mapping[Key, Row], str | None]:
    """Prepared rows by question, and why there are none."""
    try:
        return read(), None
    except (OSError, ValueError) as error:  # What is missing or damaged, of which `datasets` has many kinds.
        return {}, str(error)


def with_images(rows: "Dataset", column: str) -> Iterator[tuple[dict[str, Any], Images]]:
    """Each prepared row without its image, or its images, and what reads them."""
    images = rows.select_columns([column])
    for place, row in enumerate(rows.remove_columns([column])):
        yield row, partial(_images, images, place)


def _images(rows: "Dataset", place: int) -> "list[Image.Image]":
    (found,) = rows[place].values()
    return [image.convert("RGB") for image in (found if isinstance(found, list) else [found])]


class ReportedBenchmark(Protocol):
    """A benchmark, as the registry has it.

    name: its tasks begin with it; the key of its section.
    title: for messages.
    """

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def load_report(self) -> type[BenchmarkReport]: ...
