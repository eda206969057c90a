"""Select circumstances of counterfactual activities with human annotators.

The procedure is that of the paper (arXiv 2410.03907, sec. 3.3, step 2, and appendix A).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.flow import (
    Export,
    ExportedFile,
    Flow,
    Item,
    Labelled,
    Scale,
    Stage,
    all_values,
    optional_value,
)
from lmms_egoplan.annotation.forms import (
    Choice,
    Contents,
    Earlier,
    Form,
    Option,
    Prose,
    Steps,
    Values,
    Words,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines, parse_record, read_lines
from lmms_egoplan.validation import Checked, Text, read_as

# The file that `data build actplan` reads from an export and writes for the page.
CIRCUMSTANCES = "circumstances.jsonl"
# What the prompt for changed problems names, too (`construction.actplan.bddl.predicates_text`).
PREDICATES = (
    "(inside object object), (ontop object object), (onfloor object object), "
    "(nextto object object), (under object object), (touching object object), "
    "(inroom object room), (burnt object), (cooked object), (dusty object), (frozen object), "
    "(open object), (sliced object), (soaked object), (stained object), (toggled_on object)"
)
_YES = Option("yes", "Yes")
_NO = Option("no", "No")
_OTHERWISE = Option("otherwise", "Yes, in other words")
_SCALES = {"plausible": ("no", "yes"), "expressible": ("no", "yes", "otherwise")}


class Circumstance(Checked):
    """Something that might happen during an activity.

    Attributes:
        id: ``<activity>/<number>``.
        task: The activity's description.
        procedure: The usual procedure, step by step.
    """

    id: Text
    activity: Text
    task: Text
    procedure: list[Text]
    circumstance: Text


def read_items(path: Path) -> list[Item]:
    """Read circumstances written by ``data build actplan``.

    Raises:
        LmmsEgoplanError: The file is unreadable, malformed or empty. Names the line.
    """
    lines = [
        read_as(Circumstance, where, parse_record(where, line)) for where, line in read_lines(path)
    ]
    if not lines:
        raise LmmsEgoplanError(
            f"{path}: no circumstances; create the file with lmms-egoplan data build actplan"
        )
    return [Item(line.id, line.model_dump(exclude={"id"})) for line in lines]


class SelectedCircumstances(Flow):
    """Select circumstances that are plausible and can be expressed in BDDL."""

    name = "actplan-circumstances"
    title = "ActPlan-1K: choose circumstances"
    stages = (Stage("select", "Selection"),)

    def form(
        self, contents: Contents, _earlier: Earlier = (), _order: int = 0, _stage: str = ""
    ) -> Form:
        """Show task, procedure and circumstance. Ask whether it is plausible and expressible."""
        parts = (
            Prose("Task", contents["task"]),
            Steps("Common procedure", tuple(contents["procedure"])),
            Prose("Circumstance", contents["circumstance"]),
            Prose("Predicates", PREDICATES),
        )
        plausible = Choice(
            "plausible", "Is the circumstance plausible, by common sense?", (_YES, _NO)
        )
        expressible = Choice(
            "expressible",
            "Can BDDL express it with the existing predicates?",
            (_YES, _OTHERWISE, _NO),
            applies=("plausible", ("yes",)),
        )
        rewritten = Words(
            "rewritten",
            "The circumstance in words that BDDL can express",
            initial=contents["circumstance"],
            applies=("expressible", ("otherwise",)),
        )
        return Form(parts, (plausible, expressible, rewritten))

    def scales(self, _labelled: Labelled) -> Sequence[Scale]:
        """Return a scale for each question.

        Only plausible circumstances have a value on the second.
        """
        return [
            Scale(name.capitalize(), levels, partial(optional_value, name))
            for name, levels in _SCALES.items()
        ]

    def differ(self, item: Item, rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether annotators differ in accepting the circumstance or in its wording."""
        return len({_accepted(item, values) for values in all_values(rounds)}) > 1

    def export(self, labelled: Labelled) -> Export:
        """Export all decided circumstances to ``circumstances.jsonl``.

        `accepted` records the decision.
        """
        settled, remarks = labelled.settled(
            self, f"fewer than {labelled.per_item} labels", "labels differ"
        )
        records: list[dict[str, Any]] = []
        for item, labels in settled:
            accepted_text = _accepted(item, labels[0].values)
            proposed = item.contents["circumstance"]
            record = {"id": item.id, **item.contents, "proposed": proposed}
            record["circumstance"] = accepted_text or proposed
            record["accepted"] = accepted_text is not None
            records.append(record)
        accepted = sum(record["accepted"] for record in records)
        lines = [
            f"Circumstances decided: {len(records)} of {len(labelled.items)}, accepted: {accepted}",
            *remarks,
        ]
        file = ExportedFile(json_lines(records), "for data build actplan --circumstances")
        return Export(lines, {CIRCUMSTANCES: file} if records else {})


FLOW = SelectedCircumstances()


def _accepted(item: Item, values: Values) -> str | None:
    """Return the circumstance in the accepted words, or None if the label rejects it."""
    if values["plausible"] == "no" or values["expressible"] == "no":
        return None
    return values.get("rewritten", item.contents["circumstance"])
