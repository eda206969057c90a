"""Define the interface that a benchmark implements to have its items labelled: `Flow`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.forms import Form, Values
from lmms_egoplan.paths import module_yaml

LABELLED = ("egoplan", "egothink", "egointent", "actplan")
"""Benchmarks with a flow and a rendered set to try it on."""
FLOWS = (*LABELLED, "egoplan-failures", "actplan-circumstances", "actplan-plans")
"""Names of all flows. Each is also the name of its module, with underscores."""
ADJUDICATION = "adjudication"
QUALIFICATION = "qualification"
GUIDES: dict[str, list[str]] = module_yaml(str(Path(__file__).with_name("guides")))
"""The annotators' guides, as paragraphs by flow name."""


@dataclass(frozen=True)
class Item:
    """Something to label.

    Attributes:
        id: Unique in its database.
        contents: Contents of the form; JSON.
        hidden: Contents that annotators must not see, such as the model or a judge's rating; JSON. Forms do not use it.
        changing: Names in `contents` and `hidden` whose values may change between starts, such as the path of a video.
            Items that differ elsewhere are different items.
    """

    id: str
    contents: Mapping[str, Any]
    hidden: Mapping[str, Any] = field(default_factory=dict)
    changing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Label:
    """A label that counts: a person's latest label for an item in a stage, unless withdrawn.

    Attributes:
        item: Id of the item.
        stage: Name of the stage.
        person: Name of the annotator.
        values: Values of the form.
        comment: The annotator's comment.
        seconds: Time spent, as measured by the browser; None if unknown.
        at: Time of saving, UTC, ISO 8601.
    """

    item: str
    stage: str
    person: str
    values: Values
    comment: str
    seconds: float | None
    at: str


@dataclass(frozen=True)
class Skip:
    """An item that a person cannot judge in a stage, with the reason. Another person gets it."""

    item: str
    stage: str
    person: str
    reason: str


@dataclass(frozen=True)
class Stage:
    """A round of labels. The next stage of an item begins when it has all labels of this one.

    Attributes:
        name: Name in the database.
        title: Displayed name.
        per_item: Number of people who label an item in this stage. They must differ from those of earlier stages. None
            means the database's number per item.
    """

    name: str
    title: str
    per_item: int | None = None

    def needed(self, per_item: int) -> int:
        """Return the number of labels that an item needs in this stage; `per_item` is the database's number."""
        return per_item if self.per_item is None else self.per_item


@dataclass(frozen=True)
class Scale:
    """A scale on which the agreement of annotators is measured.

    Attributes:
        title: Displayed name.
        levels: Possible values.
        of: Returns a label's value, or None if it has none.
        is_ordered: Whether the levels are numbers. If so, Krippendorff's alpha uses their distances.
    """

    title: str
    levels: tuple[Any, ...]
    of: Callable[[Values], Any]
    is_ordered: bool = False


@dataclass(frozen=True)
class Labelled:
    """The contents of a database, for exports.

    Attributes:
        items: All items.
        labels: Labels that count, by item, in the order of saving.
        people: Names of all annotators.
        qualified: Names of the annotators who have passed; all annotators if there is no qualification.
        qualification: Ids of the qualification items.
        per_item: Number of labels that an item needs.
        skips: Items that people could not judge.
    """

    items: Sequence[Item]
    labels: Mapping[str, Sequence[Label]]
    people: Sequence[str]
    qualified: Sequence[str]
    qualification: frozenset[str]
    per_item: int
    skips: Sequence[Skip] = ()

    def of(self, item: Item, stage: str) -> list[Label]:
        """Return an item's labels of a stage from people whose labels count."""
        return [label for label in self.counting(item) if label.stage == stage]

    def counting(self, item: Item) -> list[Label]:
        """Return an item's labels of all stages from people whose labels count, and the lead's decision."""
        return [
            label
            for label in self.labels.get(item.id, ())
            if label.stage == ADJUDICATION or label.person in self.qualified
        ]

    def adjudicated(self, item: Item) -> Label | None:
        """Return the lead's decision on an item, or None."""
        return next(iter(self.of(item, ADJUDICATION)), None)

    def complete(self, flow: "Flow", item: Item) -> list[Label]:
        """Return an item's labels of all stages; an empty list if it is not fully labelled."""
        labels = [label for stage in flow.stages for label in self.of(item, stage.name)]
        return labels if len(labels) >= sum(stage.needed(self.per_item) for stage in flow.stages) else []

    def settled(self, flow: "Flow", few: str, differ: str) -> tuple[list[tuple[Item, list[Label]]], list[str]]:
        """Return the items to export, each with the labels that determine its value, and remarks on all other items.

        An item is exported if the lead has decided on it, or if it is fully labelled and its labels agree.

        Args:
            flow: Compares the labels.
            few: Remark on items that are not fully labelled.
            differ: Remark on items whose labels differ, such as ``labels differ``.
        """
        settled: list[tuple[Item, list[Label]]] = []
        unfinished = differing = 0
        for item in self.items:
            labels, decided = self.complete(flow, item), self.adjudicated(item)
            if decided is None and not labels:
                unfinished += 1
            elif decided is None and flow.differ(item, [label.values for label in labels]):
                differing += 1
            else:
                settled.append((item, labels if decided is None else [decided]))
        reasons = {few: unfinished, f"{differ} and the lead has not decided": differing}
        return settled, [f"Not exported ({reason}): {count}" for reason, count in reasons.items() if count]


@dataclass(frozen=True)
class ExportedFile:
    """A file of an export.

    Attributes:
        text: Contents.
        purpose: Description of the contents, or the command that reads them.
    """

    text: str
    purpose: str


@dataclass(frozen=True)
class Export:
    """The export of a flow.

    Attributes:
        lines: Messages about what was exported and what was not.
        files: Files by name. Files without contents are absent.
    """

    lines: Sequence[str]
    files: Mapping[str, ExportedFile]


class Flow(ABC):
    """The items of a benchmark, with form and export.

    Attributes:
        name: Name of the benchmark. Further flows of a benchmark add a hyphen and a suffix.
        title: Title of the page.
        stages: At least one stage.
        is_adjudicated: Whether the lead decides where labels differ.
        mark: Benchmark whose report reads the exports; "" if the flow has its name, or no report reads them.
        seniors: Number of people who review qualifications.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    stages: ClassVar[tuple[Stage, ...]]
    is_adjudicated: ClassVar[bool] = True
    mark: ClassVar[str] = ""
    seniors: ClassVar[int] = 0

    @abstractmethod
    def form(self, contents: Mapping[str, Any], earlier: Sequence[Values] = (), order: int = 0) -> Form:
        """Return the form of an item for one person.

        Args:
            contents: The item's `Item.contents`.
            earlier: Values of earlier stages.
            order: Number that depends on person and item and determines the order of options.
        """

    def guide_to(self, _contents: Mapping[str, Any]) -> Sequence[str]:
        """Return the paragraphs that annotators read first, adapted to an item. The last one names the source."""
        return GUIDES[self.name]

    def scales(self) -> Sequence[Scale]:
        """Return the scales for agreement. By default there are none."""
        return ()

    def differ(self, _item: Item, _labels: Sequence[Values]) -> bool:
        """Return whether the lead must see an item because its labels differ. The item is fully labelled."""
        return False

    @abstractmethod
    def export(self, labelled: Labelled) -> Export:
        """Convert the labels into files that other commands read."""

    def demo_items(self, source: Path, folder: MediaFolder) -> list[Item]:
        """Return items of the benchmark's rendered set. Only the main flow of a benchmark has them.

        Args:
            source: Folder of the set.
            folder: Receives images.
        """
        raise NotImplementedError

    def check(self, _contents: Mapping[str, Any], values: Values) -> Values:
        """Return the values of a form as they are stored.

        Raises:
            FormError: Fields contradict each other.
        """
        return values

    def expected(self, _item: Item) -> str:
        """Return the recorded answer, for seniors who review a qualification."""
        return ""

    def remarks(self, _labelled: Labelled) -> list[str]:
        """Return lines for the lead, shown with progress and agreement."""
        return []


def load_flow(name: str) -> Flow:
    """Import the flow with this name, one of `FLOWS`."""
    return import_module(f"lmms_egoplan.annotation.{name.replace('-', '_')}").FLOW
