"""What a report needs of a benchmark; who asks for a report hands the benchmarks over."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from lmms_egoplan.report.document import Figure, Headline, Images, Item, Section, ShownAnswer, Table
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Answer, Key, Scored

if TYPE_CHECKING:
    from datasets import Dataset
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

Task = TypeVar("Task", bound=Scored)
Row = TypeVar("Row")


class BenchmarkReport(ABC, Generic[Task]):
    """A benchmark's part of a report, over runs whose tasks' versions compare.

    NAME: the benchmark's; the key of the section.
    TITLE, LEAD: of the section.
    METRIC, DECIMALS: the main score, as the summary names and shows it.
    tasks: what the runs have of the benchmark, which is read once.
    """

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    LEAD: ClassVar[str]
    METRIC: ClassVar[str]
    DECIMALS: ClassVar[int]

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

    def headlines(self) -> list[Headline]:
        """Main scores, for the summary."""
        return [self.headline(task) for task in self.tasks]

    def headline(self, task: Task) -> Headline:
        """The main score of a task, for the summary."""
        main = task.main
        return Headline(
            task.run.name, self.TITLE, task.task, self.METRIC, main.value, self.DECIMALS, main.interval, main.questions,
            task.coverage, task.truncated,
        )  # fmt: skip

    def remarks(self) -> Iterator[str]:
        """What is wrong with or missing from the runs, a sentence or two each."""
        names: dict[str, list[str]] = {}
        for task in self.tasks:
            for text in self.flaws(task):
                names.setdefault(text, []).append(task.name)
        yield from (f"{', '.join(concerned)}: {text}" for text, concerned in names.items())
        yield from self.gaps()

    @classmethod
    def inputs_table(cls, inputs: Inputs) -> Table | None:
        """The table of inputs that are of no version of a task; None where there are none.

        Raises:
            LmmsEgoplanError: they are not of the form that is read.
        """
        return None

    def section(self) -> Section | None:
        """The benchmark's part of the page; None where no run has one of its tasks, and people have not labelled.

        Of labels alone, it has the tables that they fill.

        Raises:
            LmmsEgoplanError: an input cannot be used.
        """
        if not self.tasks:
            filled = [table for table in self.tables() if table is not None and any(row.is_own for row in table.rows)]
            return Section(self.NAME, self.TITLE, self.LEAD, (), tuple(filled), (), ()) if filled else None
        return Section(
            self.NAME,
            self.TITLE,
            self.LEAD,
            tuple(self.headlines()),
            tuple(table for table in self.tables() if table is not None),
            tuple(figure for figure in self.figures() if figure is not None),
            tuple(self.remarks()),
        )

    def items(self) -> list[Item]:
        """The questions for the gallery, with what the runs with samples answered."""
        found: dict[Key, dict[str, Answer]] = {}
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
            answers = {run: self.shown(answer) for run, answer in found[key].items()}
            shown = self.question(key, [*found[key].values()])
            items.append(Item(key=f"{self.NAME}/{name}{again}", benchmark=self.NAME, answers=answers, **shown))
        return items

    def compact(self) -> Table | None:
        """`compact_table`; None where no run has one of the benchmark's tasks."""
        return self.compact_table() if self.tasks else None


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
