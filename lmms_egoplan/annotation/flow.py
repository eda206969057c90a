"""What a benchmark brings so that people can label its items: its `Flow`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.forms import Form, Values

ADJUDICATION = "adjudication"
QUALIFICATION = "qualification"


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
    of: a label's value; None where the label has none.
    is_ordered: whether levels are numbers, at whose distance Krippendorff's alpha looks.
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
    options: of the command that made the database.
    skips: items that people could not judge.
    """

    items: Sequence[Item]
    labels: Mapping[str, Sequence[Label]]
    people: Sequence[str]
    qualified: Sequence[str]
    qualification: frozenset[str]
    per_item: int
    options: Mapping[str, Any]
    skips: Sequence[Skip] = ()

    def of(self, item: Item, stage: str) -> list[Label]:
        """An item's labels of a stage, by people whose labels count."""
        return [label for label in self.counting(item) if label.stage == stage]

    def counting(self, item: Item) -> list[Label]:
        """An item's labels of all stages, by people whose labels count, and what the lead has decided."""
        return [
            label
            for label in self.labels.get(item.id, ())
            if label.stage == ADJUDICATION or label.person in self.qualified
        ]

    def adjudicated(self, item: Item) -> Label | None:
        """What the lead has decided."""
        return next(iter(self.of(item, ADJUDICATION)), None)

    def settled(self, flow: "Flow", stage: str, what: str) -> tuple[list[tuple[Item, list[Label]]], list[str]]:
        """The items whose labels agree, with these, or with what the lead has decided; and remarks on all others.

        Args:
            what: may differ, in words.
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
    """

    name: ClassVar[str]
    title: ClassVar[str]
    guide: ClassVar[tuple[str, ...]]
    stages: ClassVar[tuple[Stage, ...]]
    is_adjudicated: ClassVar[bool] = True

    @abstractmethod
    def form(self, shown: Mapping[str, Any], earlier: Sequence[Values], order: int) -> Form:
        """An item as one person sees it.

        Args:
            shown: of the item.
            earlier: what stages before have made of it, one each.
            order: a number that is the person's and the item's own, for orders in which options are shown.
        """

    def guide_to(self, shown: Mapping[str, Any]) -> tuple[str, ...]:
        """The guide in the words of an item, of which `shown` is shown."""
        return self.guide

    @abstractmethod
    def scales(self) -> Mapping[str, Scale]:
        """What agreement is measured on, by name."""

    @abstractmethod
    def differ(self, item: Item, labels: Sequence[Values]) -> bool:
        """Whether an item's labels, all that it needs, differ so that the lead should see them."""

    @abstractmethod
    def export(self, labelled: Labelled) -> Export:
        """The labels in the form that other commands read."""

    def demo_items(self, source: Path, folder: MediaFolder) -> list[Item]:
        """Items of the benchmark's rendered set; of its main flow alone.

        Args:
            source: holds its `RenderedSet.FOLDER`.
            folder: gets images.
        """
        raise NotImplementedError

    def check(self, shown: Mapping[str, Any], values: Values) -> Values:
        """What a form has, as it is stored.

        Raises:
            FormError: fields contradict one another.
        """
        return values

    def expected(self, item: Item) -> str:
        """What the record says, for those who review a qualification."""
        return ""

    def remarks(self, labelled: Labelled) -> list[str]:
        """What the lead is told beside progress and agreement, a line each."""
        return []
