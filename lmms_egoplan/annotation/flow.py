"""What a benchmark brings so that people can label its items: its `Flow`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.forms import Form, Values
from lmms_egoplan.paths import yaml_beside

LABELLED = ("egoplan", "egothink", "egointent", "actplan")
"""Benchmarks with a flow and a rendered set to try it on."""
FLOWS = (*LABELLED, "actplan-circumstances", "actplan-plans")
"""What people label. Each flow has the module of its name."""
ADJUDICATION = "adjudication"
QUALIFICATION = "qualification"
GUIDES: dict[str, tuple[str, ...]] = {
    name: tuple(paragraphs) for name, paragraphs in yaml_beside(str(Path(__file__).with_name("guides"))).items()
}
"""What annotators read first, by the name of their flow."""


@dataclass(frozen=True)
class Item:
    """What people label.

    id: unique in its database.
    shown: whatever the form is made of; JSON.
    hidden: what annotators must not see, such as the model or a judge's rating; JSON. Forms are made without it.
    changing: names in `shown` and `hidden` of what may be another at each start, such as the place of a video; an item
        with other values elsewhere is another item.
    """

    id: str
    shown: Mapping[str, Any]
    hidden: Mapping[str, Any] = field(default_factory=dict)
    changing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Label:
    """A label that counts: the last one that a person gave of an item in a stage, and has not withdrawn.

    person: the name of the annotator.
    seconds: that it took, as the browser counted; None where it did not.
    at: when it was saved, UTC, ISO 8601.
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
    """An item that a person cannot judge in a stage, with their reason; another person gets it."""

    item: str
    stage: str
    person: str
    reason: str


@dataclass(frozen=True)
class Stage:
    """A round of labels; the next begins on an item when it has all of its labels of this one.

    per_item: people that label an item in it, who are others than those of the stages before; None: as many as the
        database has for each item.
    """

    name: str
    title: str
    per_item: int | None = None


@dataclass(frozen=True)
class Scale:
    """Something that annotators may agree on.

    levels: its values.
    of: a label's value; None if the label has none.
    is_ordered: levels are numbers, whose distances count in Krippendorff's alpha.
    """

    title: str
    levels: tuple[Any, ...]
    of: Callable[[Values], Any]
    is_ordered: bool = False


@dataclass(frozen=True)
class Labelled:
    """A database as exports read it.

    labels: that count, by item, in the order in which they were saved.
    qualified: names of the annotators who have passed; all of them where there is no qualification.
    qualification: ids of the items that served for it.
    per_item: labels that an item needs.
    skips: items that people could not judge.
    """

    items: Sequence[Item]
    labels: Mapping[str, Sequence[Label]]
    people: Sequence[str]
    qualified: Sequence[str]
    qualification: frozenset[str]
    per_item: int
    skips: Sequence[Skip] = ()

    def of(self, item: Item, stage: str) -> list[Label]:
        """Return an item's labels of a stage, by people whose labels count."""
        return [label for label in self.counting(item) if label.stage == stage]

    def counting(self, item: Item) -> list[Label]:
        """Return an item's labels of all stages by people whose labels count, and what the lead decided."""
        return [
            label
            for label in self.labels.get(item.id, ())
            if label.stage == ADJUDICATION or label.person in self.qualified
        ]

    def adjudicated(self, item: Item) -> Label | None:
        """Return what the lead decided on an item; None for nothing."""
        return next(iter(self.of(item, ADJUDICATION)), None)

    def settled(self, flow: "Flow", stage: str, what: str) -> tuple[list[tuple[Item, list[Label]]], list[str]]:
        """Return the items whose labels agree, with these, or with what the lead decided; and remarks on all others.

        Args:
            what: names what may differ.
        """
        settled: list[tuple[Item, list[Label]]] = []
        unfinished = differing = 0
        for item in self.items:
            labels, decided = self.of(item, stage), self.adjudicated(item)
            if decided is not None:
                settled.append((item, [decided]))
            elif len(labels) < self.per_item:
                unfinished += 1
            elif flow.differ(item, [label.values for label in labels]):
                differing += 1
            else:
                settled.append((item, labels))
        remarks = {
            f"without their {self.per_item} labels yet": unfinished,
            f"since {what} differ and the lead has not decided": differing,
        }
        return settled, [f"Left out, {why}: {count}" for why, count in remarks.items() if count]


@dataclass(frozen=True)
class ExportedFile:
    """A file of an export.

    purpose: what it holds, or which command reads it.
    """

    text: str
    purpose: str


@dataclass(frozen=True)
class Export:
    """What a flow makes of labels.

    lines: tell how much was made, and what was left out.
    files: by name; what there is nothing to write of is not among them.
    """

    lines: Sequence[str]
    files: Mapping[str, ExportedFile]


class Flow(ABC):
    """Items of a benchmark, with form and export.

    name: the benchmark's; of a second flow of it, with more behind a hyphen.
    title: of the page.
    guide: paragraphs that annotators read first, the last with their source; `guide_to` fits them to an item.
    stages: at least one.
    is_adjudicated: whether the lead decides where labels differ.
    seniors: people who review qualifications.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    guide: ClassVar[tuple[str, ...]]
    stages: ClassVar[tuple[Stage, ...]]
    is_adjudicated: ClassVar[bool] = True
    seniors: ClassVar[int] = 0

    @abstractmethod
    def form(self, shown: Mapping[str, Any], earlier: Sequence[Values] = (), order: int = 0) -> Form:
        """Return an item as one person sees it.

        Args:
            shown: of the item.
            earlier: the values of earlier stages.
            order: a number that depends on person and item, for the order of options.
        """

    def guide_to(self, _shown: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the guide in the words of an item, which is shown so."""
        return self.guide

    def scales(self) -> Sequence[Scale]:
        """Return what agreement is measured on; by default nothing, since any labels may be right."""
        return ()

    def differ(self, _item: Item, _labels: Sequence[Values]) -> bool:
        """Tell if an item's labels, all that it needs, differ so that the lead should see them."""
        return False

    @abstractmethod
    def export(self, labelled: Labelled) -> Export:
        """Put the labels into the form that other commands read."""

    def demo_items(self, source: Path, folder: MediaFolder) -> list[Item]:
        """Return items of the benchmark's rendered set; only its main flow has them.

        Args:
            source: the set.
            folder: gets images.
        """
        raise NotImplementedError

    def check(self, _shown: Mapping[str, Any], values: Values) -> Values:
        """Return the values of a form as they are stored.

        Raises:
            FormError: fields contradict one another.
        """
        return values

    def expected(self, _item: Item) -> str:
        """Return what the record says, for those who review a qualification."""
        return ""

    def remarks(self, _labelled: Labelled) -> list[str]:
        """Return lines for the lead, next to progress and agreement."""
        return []


def load_flow(name: str) -> Flow:
    """Import one of `FLOWS`."""
    return import_module(f"lmms_egoplan.annotation.{name.replace('-', '_')}").FLOW
