"""Circumstances of counterfactual activities chosen by people (sec. 3.3, step 2, and appendix A)."""

from collections.abc import Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.flow import GUIDES, Export, ExportedFile, Flow, Item, Labelled, Scale, Stage
from lmms_egoplan.annotation.forms import Choice, Form, Option, Prose, Steps, Values, Words
from lmms_egoplan.benchmarks.actplan.bddl import predicates_text
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines, parse_record, read_lines
from lmms_egoplan.validation import Checked, Text, read_as

# What `data build actplan` reads of an export, and what it writes for the page.
CIRCUMSTANCES = "circumstances.jsonl"
_STAGE = "select"
_YES, _NO, _OTHERWISE = (Option("yes", "Yes"), Option("no", "No"), Option("otherwise", "Yes, in other words"))
_SCALES = {"plausible": ("no", "yes"), "expressible": ("no", "yes", "otherwise")}


class Circumstance(Checked):
    """Something that might happen during an activity.

    id: ``<activity>/<number>``.
    task: the activity's description.
    procedure: the common one, step by step.
    """

    id: Text
    activity: Text
    task: Text
    procedure: list[Text]
    circumstance: Text


def read_items(path: Path) -> list[Item]:
    """Read circumstances to choose from, as ``data build actplan`` wrote them.

    Raises:
        LmmsEgoplanError: the file cannot be read, holds something else, or nothing; names the line.
    """
    lines = [read_as(Circumstance, where, parse_record(where, line)) for where, line in read_lines(path)]
    if not lines:
        raise LmmsEgoplanError(f"{path}: no circumstance in it; lmms-egoplan data build actplan writes such a file")
    return [Item(line.id, line.model_dump(exclude={"id"})) for line in lines]


class SelectedCircumstances(Flow):
    """Circumstances that are plausible, and that BDDL can say."""

    name = "actplan-circumstances"
    title = "ActPlan-1K: choose circumstances"
    guide = GUIDES[name]
    stages = (Stage(_STAGE, "Selection"),)

    def form(self, shown: Mapping[str, Any], _earlier: Sequence[Values] = (), _order: int = 0) -> Form:
        """Show task, procedure and circumstance; ask if it is plausible, and expressible."""
        parts = (
            Prose("Task", shown["task"]),
            Steps("Common procedure", tuple(shown["procedure"])),
            Prose("Circumstance", shown["circumstance"]),
            Prose("Predicates", predicates_text()),
        )
        plausible = Choice("plausible", "Is the circumstance plausible, by common sense?", (_YES, _NO))
        question, answers = "Can BDDL say it, with the predicates that exist?", (_YES, _OTHERWISE, _NO)
        expressible = Choice("expressible", question, answers, applies=("plausible", ("yes",)))
        title, text = "The circumstance as BDDL can say it", shown["circumstance"]
        rewritten = Words("rewritten", title, text, applies=("expressible", ("otherwise",)))
        return Form(parts, (plausible, expressible, rewritten))

    def scales(self) -> Sequence[Scale]:
        """Return the two questions; the second is asked only after a yes to the first."""
        return [Scale(name.capitalize(), levels, methodcaller("get", name)) for name, levels in _SCALES.items()]

    def differ(self, item: Item, labels: Sequence[Values]) -> bool:
        """Tell if some accept the circumstance and others do not, or in other words."""
        return len({_accepted(item, values) for values in labels}) > 1

    def export(self, labelled: Labelled) -> Export:
        """Export ``circumstances.jsonl``: all that are decided, and whether they are accepted."""
        settled, left_out = labelled.settled(self, _STAGE, "labels")
        records: list[dict[str, Any]] = []
        for item, labels in settled:
            text, proposed = _accepted(item, labels[0].values), item.shown["circumstance"]
            texts = {"proposed": proposed, "circumstance": text or proposed}
            records.append({"id": item.id, **item.shown, **texts, "accepted": text is not None})
        accepted = sum(record["accepted"] for record in records)
        lines = [f"Circumstances decided: {len(records)} of {len(labelled.items)}, accepted: {accepted}", *left_out]
        file = ExportedFile(json_lines(records), "for data build actplan --circumstances")
        return Export(lines, {CIRCUMSTANCES: file} if records else {})


FLOW = SelectedCircumstances()


def _accepted(item: Item, values: Values) -> str | None:
    """Return the circumstance in the words that a label accepts; None if it does not."""
    if values["plausible"] == "no" or values["expressible"] == "no":
        return None
    return values.get("rewritten", item.shown["circumstance"])
