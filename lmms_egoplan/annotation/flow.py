"""Define the interface that a benchmark implements to have its items labelled: `Flow`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.forms import Contents, Earlier, Form, Values
from lmms_egoplan.annotation.study import ADJUDICATION, Stage, Study
from lmms_egoplan.paths import module_yaml

LABELLED = ("egoplan", "egothink", "egointent", "actplan")
"""Benchmarks with a flow and a rendered set to try it on."""
GUIDES: dict[str, list[str]] = module_yaml(str(Path(__file__).with_name("guides")))
"""The annotators' guides, as paragraphs by flow name."""


@dataclass(frozen=True)
class Item:
    """Something to label.

    Attributes:
        id: Unique in its database.
        contents: Contents of the form; JSON.
        hidden: Contents that annotators must not see, such as the model or a judge's rating; JSON.
            Forms do not use it.
        changing: Names in `contents` and `hidden` whose values may change between starts, such as
            the path of a video. Items that differ elsewhere are different items.
        known: Known values of a training or gold item, else None.
        initial: Imported values with which the form of the first round starts, else None.
    """

    id: str
    contents: Mapping[str, Any]
    hidden: Mapping[str, Any] = field(default_factory=dict)
    changing: tuple[str, ...] = ()
    known: Values | None = None
    initial: Values | None = None


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
        initial: The prediction with which the person's form started; None without one.
    """

    item: str
    stage: str
    person: str
    values: Values
    comment: str
    seconds: float | None
    at: str
    initial: Values | None = None


@dataclass(frozen=True)
class Skip:
    """An item that a person cannot judge in a stage, with the reason. Another person gets it."""

    item: str
    stage: str
    person: str
    reason: str


@dataclass(frozen=True)
class Scale:
    """A scale on which the agreement of annotators is measured.

    Attributes:
        title: Displayed name.
        levels: Possible values.
        value_of: Returns a label's value, or None if it has none.
        is_ordered: Whether the levels are numbers. If so, Krippendorff's alpha uses their
            distances.
    """

    title: str
    levels: tuple[Any, ...]
    value_of: Callable[[Values], Any]
    is_ordered: bool = False


def values_by_round(labels: Iterable[Label]) -> dict[str, list[Values]]:
    """Return the values of an item's labels by round, for `Flow.differ`."""
    rounds: dict[str, list[Values]] = {}
    for label in labels:
        rounds.setdefault(label.stage, []).append(label.values)
    return rounds


def all_values(rounds: Mapping[str, Sequence[Values]]) -> list[Values]:
    """Return the values of all rounds."""
    return [values for round_values in rounds.values() for values in round_values]


def optional_value(field: str, values: Values) -> Any:
    """Return a label's value of a field, or None if it has none."""
    return values.get(field)


@dataclass(frozen=True)
class Labelled:
    """The contents of a database, for exports.

    Attributes:
        study: Rounds and people.
        items: All items but those for training and gold.
        labels: Labels that count, by item, in the order of saving.
        people: Names of all annotators.
        qualified: Names of the annotators who have passed; all annotators if there is no
            qualification.
        qualification: Ids of the qualification items.
        samples: Ids of the items of each round that has a sample.
        skips: Items that people could not judge.
    """

    study: Study
    items: Sequence[Item]
    labels: Mapping[str, Sequence[Label]]
    people: Sequence[str]
    qualified: Sequence[str]
    qualification: frozenset[str]
    samples: Mapping[str, frozenset[str]] = field(default_factory=dict)
    skips: Sequence[Skip] = ()

    @property
    def per_item(self) -> int:
        """The number of labels that an item needs in the first round."""
        return self.study.rounds[0].per_item

    def needed(self, item: Item) -> dict[str, int]:
        """Return how many labels an item needs in each of the rounds that determine its value."""
        return {
            round_.name: round_.per_item
            for round_ in self.study.deciding
            if self._is_in_round(item, round_.name)
        }

    def _is_in_round(self, item: Item, stage: str) -> bool:
        """Return whether an item is in a round. Rounds without a sample have all items."""
        return stage not in self.samples or item.id in self.samples[stage]

    def labels_of(self, item: Item, stage: str) -> list[Label]:
        """Return an item's labels of a stage from people whose labels count."""
        return [label for label in self.counting(item) if label.stage == stage]

    def counting(self, item: Item) -> list[Label]:
        """Return an item's labels of all stages from people whose labels count.

        They include the lead's decision.
        """
        return [
            label
            for label in self.labels.get(item.id, ())
            if label.stage == ADJUDICATION or label.person in self.qualified
        ]

    def adjudicated(self, item: Item) -> Label | None:
        """Return the lead's decision on an item, or None."""
        decisions = self.labels_of(item, ADJUDICATION)
        return decisions[0] if decisions else None

    def complete(self, item: Item) -> list[Label]:
        """Return an item's labels of the rounds in `needed`; an empty list if it lacks labels."""
        complete: list[Label] = []
        for stage, number in self.needed(item).items():
            labels = self.labels_of(item, stage)
            if len(labels) < number:
                return []
            complete += labels
        return complete

    def settled(
        self, flow: "Flow", few: str, differ: str
    ) -> tuple[list[tuple[Item, list[Label]]], list[str]]:
        """Return the items to export with the labels that determine their values, and remarks.

        An item is exported if the lead has decided on it, or if it is fully labelled and its labels
        agree. Remarks count the others.

        Args:
            flow: Compares the labels.
            few: Remark on items that are not fully labelled.
            differ: Remark on items whose labels differ, such as ``labels differ``.
        """
        settled: list[tuple[Item, list[Label]]] = []
        num_unfinished = 0
        num_differing = 0
        for item in self.items:
            decision = self.adjudicated(item)
            labels = self.complete(item)
            if decision:
                settled.append((item, [decision]))
            elif not labels:
                num_unfinished += 1
            elif flow.differ(item, values_by_round(labels)):
                num_differing += 1
            else:
                settled.append((item, labels))
        remarks = []
        if num_unfinished:
            remarks.append(f"Not exported ({few}): {num_unfinished}")
        if num_differing:
            remarks.append(f"Not exported ({differ} and the lead has not decided): {num_differing}")
        return settled, remarks


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
        stages: Stages that a study can use as rounds, in order.
        mark: Benchmark whose report reads the exports; "" if the flow has its name, or no report
            reads them.
        seniors: Number of people who review qualifications if there is no study file.
        agreement_stage: Stage whose labels are compared in `scales`; "" for the first one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    stages: ClassVar[tuple[Stage, ...]]
    mark: ClassVar[str] = ""
    seniors: ClassVar[int] = 0
    agreement_stage: ClassVar[str] = ""

    @abstractmethod
    def form(
        self, contents: Contents, earlier: Earlier = (), order: int = 0, stage: str = ""
    ) -> Form:
        """Return the form of an item for one person.

        Args:
            contents: The item's `Item.contents`.
            earlier: Values of earlier rounds; in final rounds, also the lead's decision.
            order: Number that depends on person and item and determines the order of options.
            stage: Name of the round, or `ADJUDICATION`; "" if the item is only shown.
        """

    def guide_to(self, _contents: Mapping[str, Any]) -> Sequence[str]:
        """Return the paragraphs that annotators read first, adapted to an item.

        The last one names the source.
        """
        return GUIDES[self.name]

    def scales(self, _labelled: Labelled) -> Sequence[Scale]:
        """Return the scales for the agreement of these labels. By default there are none."""
        return ()

    def differ(self, _item: Item, _rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether the lead must see an item because its labels differ.

        The item is fully labelled.

        Args:
            _item: The item.
            _rounds: The values of its labels, by name of the round.
        """
        return False

    def allowed_options(self, _number: int, _count: int) -> Mapping[str, Sequence[str]]:
        """Return the options that a person of the first round may use, by field name.

        Fields that are absent keep all.

        Args:
            number: Number of the person in their group, from 1.
            count: Number of people in that group.
        """
        return {}

    def sets_aside(self, _values: Values) -> bool:
        """Return whether a label sets its item aside, so that it needs no label of later rounds."""
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

    def agrees(self, _item: Item, _values: Values) -> bool | None:
        """Return whether a label agrees with the recorded answer.

        None if there is no recorded answer.
        """
        return None

    def remarks(self, _labelled: Labelled) -> list[str]:
        """Return lines for the lead, shown with progress and agreement."""
        return []
