"""Read study files: who labels which items, in which rounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import ConfigDict, Field

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines, read_text
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import Checked, Expected, Text, read_as, refuse

ANNOTATOR = "annotator"
# Parts of the items. Everybody of the first round's group labels the items of all parts but the
# last one.
TRAINING = "training"
QUALIFICATION = "qualification"
GOLD = "gold"
MAIN = "main"
# The lead's decision on an item.
ADJUDICATION = "adjudication"
_FOLDER = Path(__file__).parent / "studies"
STUDIES = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
"""Names of the study files in the package."""

_Count = Annotated[int, Field(ge=1), Expected("a number from 1")]


@dataclass(frozen=True)
class Stage:
    """A kind of round that a flow offers.

    Attributes:
        name: Name in study files and in the database.
        title: Displayed name.
        per_item: Number of people who label an item in this stage, if there is no study file. None
            means the value of ``--per-item``.
        is_default: Whether the stage is a round if there is no study file.
        apart: Names of the stages whose people may not label the same item in this stage; None
            means all earlier rounds.
    """

    name: str
    title: str
    per_item: int | None = None
    is_default: bool = True
    apart: tuple[str, ...] | None = None


class _StudyPart(Checked):
    """A part of a study file. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Group(_StudyPart):
    """A group of people, such as the reviewers.

    Attributes:
        count: Number of people. It can increase later.
    """

    count: Annotated[int, Field(ge=1, le=500), Expected("a number from 1 to 500")]


class Round(_StudyPart):
    """A round of labels. An item's round begins when its earlier rounds have all of their labels.

    Attributes:
        name: One of the flow's `Stage` names.
        people: Name of the group that labels.
        per_item: Number of people who label an item.
        sample: Number of items, drawn at random; None for all items.
        final: Whether the round checks final values. It begins when the labels of all other rounds
            agree or the lead has decided, and it does not change the exported values.
        seconds: Seconds per label, as measured in a pilot. Used to estimate hours until enough
            labels are measured.
    """

    name: Text
    people: Text = ANNOTATOR
    per_item: _Count = 1
    sample: _Count | None = None
    final: bool = False
    seconds: (
        Annotated[float, Field(gt=0, strict=False), Expected("seconds, a number above 0")] | None
    ) = None


class Gold(_StudyPart):
    """Items with known values, mixed in to measure people's accuracy.

    Attributes:
        labels: File that `read_known` reads.
        every: A person gets one gold item with this number of other items, at a random place among
            them.
        stop_after_errors: Number of wrong labels of gold items after which a person gets no new
            items; None for no limit.
    """

    labels: Text
    every: _Count
    stop_after_errors: _Count | None = None


class Study(_StudyPart):
    """Who labels what. Stored in the database.

    Attributes:
        flow: Name of the flow.
        source: Where the procedure is from, such as a paper's section.
        people: Groups by name. People are called ``annotator-1`` and so on.
        rounds: Rounds in order. The first one has all items.
        qualification: Number of items that everybody labels first. People continue when the seniors
            have passed them.
        seniors: Number of people who review qualifications.
        training: File with items that everybody labels first, with feedback, as `read_known` reads
            it; None without training.
        gold: Items with known values.
    """

    flow: Text
    source: str = ""
    people: dict[Text, Group]
    rounds: Annotated[list[Round], Field(min_length=1)]
    qualification: Annotated[int, Field(ge=0)] = 0
    seniors: Annotated[int, Field(ge=0)] = 0
    training: Text | None = None
    gold: Gold | None = None

    @property
    def deciding(self) -> list[Round]:
        """The rounds that determine the exported values."""
        return [round_ for round_ in self.rounds if not round_.final]

    @property
    def final(self) -> list[str]:
        """The names of the rounds that check final values."""
        return [round_.name for round_ in self.rounds if round_.final]

    @property
    def stages(self) -> list[str]:
        """The names of all rounds, and of the other kinds of slots."""
        rounds = [round_.name for round_ in self.rounds]
        return [TRAINING, QUALIFICATION, GOLD, *rounds, ADJUDICATION]

    @property
    def learners(self) -> int:
        """The number of people who label training, qualification and gold items."""
        return self.people[self.rounds[0].people].count

    def apart(self, stage: str, stages: Sequence[Stage]) -> list[str]:
        """Return a stage and the rounds whose people may not label the same item in it.

        Args:
            stages: Stages of the flow.
        """
        rules = {flow_stage.name: flow_stage.apart for flow_stage in stages}
        names = [round_.name for round_ in self.rounds]
        apart: dict[str, Sequence[str]] = {}
        for number, name in enumerate(names):
            rule = rules.get(name)
            apart[name] = names[:number] if rule is None else rule
        later = [name for name in names if stage in apart[name]]
        return [stage, *apart.get(stage, ()), *later]

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield the name and group of everybody in a group. The lead and seniors are in none."""
        for group, people in self.people.items():
            for number in range(people.count):
                yield f"{group}-{number + 1}", group


def read_study(name: str) -> Study:
    """Read a study file, or one of the package's by its name, one of `STUDIES`.

    See `check_study` for its contents.

    Raises:
        LmmsEgoplanError: The file cannot be read, or a field is invalid. The message names file and
            field.
    """
    path = _FOLDER / f"{name}.yaml" if name in STUDIES else Path(name)
    if not path.is_file():
        raise LmmsEgoplanError(
            f"--study {name}: no such file; pass a file, or one of {', '.join(STUDIES)}"
        )
    try:
        content = yaml.safe_load(read_text(path, "study"))
    except yaml.YAMLError as error:
        raise LmmsEgoplanError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    study = read_as(Study, str(path), content)
    with_paths: dict[str, Any] = {}
    if study.training:
        with_paths["training"] = str(path.parent / study.training)
    if study.gold:
        labels = str(path.parent / study.gold.labels)
        with_paths["gold"] = study.gold.model_copy(update={"labels": labels})
    return study.model_copy(update=with_paths)


def default_study(
    flow: str, stages: Sequence[Stage], annotators: int, per_item: int, qualification: int = 0
) -> Study:
    """Return the study that applies without a file.

    It has the flow's default stages, each labelled by one group of annotators.
    """
    rounds = [
        Round(name=stage.name, per_item=stage.per_item or per_item)
        for stage in stages
        if stage.is_default
    ]
    return Study(
        flow=flow,
        people={ANNOTATOR: Group(count=annotators)},
        rounds=rounds,
        qualification=qualification,
    )


def check_study(study: Study, flow: str, stages: Sequence[Stage], num_items: int) -> None:
    """Check that a study fits a flow and its items.

    Args:
        flow: Name of the flow.
        stages: Stages of the flow.
        num_items: Number of items, without those for training and gold.

    Raises:
        LmmsEgoplanError: A round, group or number does not fit. The message lists all problems.
    """
    num_in_rounds = num_items - study.qualification
    problems = []
    if study.flow != flow:
        problems.append(f"flow: {study.flow} is another flow than {flow}")
    problems += _problems_of_order(study, stages)
    for round_ in study.rounds:
        problems += [
            f"rounds, {round_.name}, {problem}"
            for problem in _problems_of_round(study, round_, stages, num_in_rounds)
        ]
    if study.qualification and len(study.deciding) > 1:
        problems.append("qualification: only possible for items with a single stage")
    if study.qualification >= num_items:
        problems.append(
            f"qualification {study.qualification}: there are only {num_items} items; choose "
            "fewer, or 0"
        )
    problems += _problems_of_people(study)
    refuse(problems, "study: ", "The study has these problems:")


def _problems_of_order(study: Study, stages: Sequence[Stage]) -> Iterator[str]:
    """Yield what is wrong with the order of the rounds, and with the first one."""
    known = [stage.name for stage in stages]
    names = [round_.name for round_ in study.rounds]
    if names != [name for name in known if name in names]:
        yield (
            f"rounds: expected some of {join_list(known)}, in this order, found {join_list(names)}"
        )
    if study.rounds[0].sample or study.rounds[0].final:
        yield (
            f"rounds, {names[0]}: the first round has all items and is not final; drop sample and "
            "final"
        )
    are_final = [round_.final for round_ in study.rounds]
    if are_final != sorted(are_final):
        yield "rounds: final rounds must be the last ones"


def _problems_of_people(study: Study) -> Iterator[str]:
    """Yield what is wrong with the names of the groups."""
    for name in study.people:
        if name in ("lead", "senior"):
            yield f"people, {name}: use another name than lead or senior"


def _problems_of_round(
    study: Study, round_: Round, stages: Sequence[Stage], num_items: int
) -> Iterator[str]:
    """Yield what is wrong with a round."""
    if round_.people not in study.people:
        yield f"people: no group {round_.people!r}; there are {join_list([*study.people])}"
        return
    apart = study.apart(round_.name, stages)
    count = study.people[round_.people].count
    # People for one item: those of this round and of all earlier ones that it must be apart from.
    needed = 0
    for other in study.rounds[: study.rounds.index(round_) + 1]:
        if other.name in apart and other.people == round_.people:
            needed += other.per_item
    if needed > count:
        option = f"count {count} of {round_.people}"
        if round_.people == ANNOTATOR:
            option = f"--annotators, or {option}"
        yield f"{option}: each item needs {needed} different people; increase the number"
    if round_.sample and round_.sample > num_items:
        yield f"sample {round_.sample}: there are only {num_items} items; choose fewer"


def read_known(path: str) -> dict[str, dict[str, Any]]:
    """Read known values by item id.

    A line is like ``{"item": "existence/1 of a", "values": {"rating": "0.5"}}``.

    Fields may be missing in ``values``: a label is right if it has all of the given values.

    Raises:
        LmmsEgoplanError: A line is invalid, or an item has two lines.
    """
    known: dict[str, dict[str, Any]] = {}
    for where, line in read_lines(Path(path), "known values"):
        record = read_as(_Known, where, parse_record(where, line))
        if record.item in known:
            raise LmmsEgoplanError(
                f"{where}: item: {record.item!r} has an earlier line; remove one"
            )
        known[record.item] = record.values
    if not known:
        raise LmmsEgoplanError(
            f"{path}: no known values; add a line, or drop the file from the study"
        )
    return known


class _Known(Checked):
    item: Text
    values: Annotated[
        dict[str, Any], Field(min_length=1), Expected("an object with at least one field")
    ]
