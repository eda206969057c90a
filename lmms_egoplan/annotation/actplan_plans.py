"""Write gold plans with human annotators, at least two per instance (sec. 3.2 and 4.2.2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.clips import KeptImage, MediaFolder
from lmms_egoplan.annotation.flow import Export, ExportedFile, Flow, Item, Label, Labelled, Stage
from lmms_egoplan.annotation.forms import (
    Contents,
    Earlier,
    Form,
    FormError,
    Picture,
    Prose,
    Values,
    Words,
)
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.actplan.reply.calls import is_well_formed
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import json_lines, parse_record, read_lines
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import Checked, Text, read_as

# The file that `data build actplan` reads from an export.
GOLD_PLANS = "gold_plans.jsonl"
# Number of gold plans that `data prepare actplan` reads per instance.
FEWEST_PLANS = 2
_STAGE = "write"
_ROWS = 16
# Maximum number of malformed steps in a message.
_NAMED = 3


class _Line(Checked):
    id: Text
    description: Text
    objects: list[Text]
    images: list[Text]


def read_items(path: Path, folder: MediaFolder) -> list[Item]:
    """Read instances written by ``data build actplan``, with images next to the file.

    Args:
        folder: Receives the images.

    Raises:
        LmmsEgoplanError: The file is unreadable, malformed or empty, or an image is missing.
    """
    items = []
    for where, text in read_lines(path):
        line = read_as(_Line, where, parse_record(where, text))
        images = [_keep_image(path.parent, image, folder, where) for image in line.images]
        contents = {"description": line.description, "objects": line.objects, "images": images}
        items.append(Item(line.id, contents))
    if not items:
        raise LmmsEgoplanError(
            f"{path}: no instances; create the file with lmms-egoplan data build actplan"
        )
    return items


def _keep_image(source: Path, image: str, folder: MediaFolder, where: str) -> str:
    """Copy an image into the media folder, and return its name there."""
    try:
        content = resolve_inside(source, image).read_bytes()
        return folder.keep(content).name
    except OSError as error:
        raise LmmsEgoplanError(f"{where}: images: cannot read {image}: {error.strerror}") from error


def pictures(names: Sequence[str]) -> list[Picture]:
    """Return an instance's images as parts of a form."""
    return [
        Picture(f"Picture {number} of {len(names)}", KeptImage(name))
        for number, name in enumerate(names, 1)
    ]


class WrittenPlans(Flow):
    """Write plans: several people write one for the same instance, without seeing each other's.

    Agreement is not measured, because different plans may all be correct.
    """

    name = "actplan-plans"
    title = "ActPlan-1K: write gold plans"
    stages = (Stage(_STAGE, "Plans"),)

    def form(
        self, contents: Contents, _earlier: Earlier = (), _order: int = 0, _stage: str = ""
    ) -> Form:
        """Show task, objects and pictures. Ask for a plan."""
        texts = (
            Prose("Task", contents["description"]),
            Prose("Objects", ", ".join(contents["objects"])),
        )
        plan = Words("plan", "Plan: one step per line", rows=_ROWS)
        return Form((*texts, *pictures(contents["images"])), (plan,))

    def check(self, _contents: Contents, values: Values) -> Values:
        """Check that every line has the form action(object).

        Raises:
            FormError: A line has another form. The message names the lines.
        """
        steps = enumerate(official_steps(values["plan"]), 1)
        wrong = [f"{number} ({step})" for number, step in steps if not is_well_formed(step)]
        if wrong:
            raise FormError(f"Expected the form action(object): line {join_list(wrong, _NAMED)}")
        return values

    def export(self, labelled: Labelled) -> Export:
        """Export instances with all of their plans to ``gold_plans.jsonl``."""
        records = [
            _record(item, labelled) for item in labelled.items if _has_enough_plans(item, labelled)
        ]
        lines = [f"Instances with all gold plans: {len(records)} of {len(labelled.items)}"]
        closed = sum(labelled.adjudicated(item) is not None for item in labelled.items)
        if closed:
            lines.append(
                f"Closed by a plan of the lead: {closed}; withdraw it to collect more plans"
            )
        if not records:
            return Export(lines, {})
        file = ExportedFile(json_lines(records), "for data build actplan --plans")
        return Export(lines, {GOLD_PLANS: file})


FLOW = WrittenPlans()


def _plans(item: Item, labelled: Labelled) -> list[Label]:
    """Return an instance's plans. The lead's decision is another plan, unless it repeats one."""
    plans = labelled.labels_of(item, _STAGE)
    decision = labelled.adjudicated(item)
    if decision and decision.values not in [label.values for label in plans]:
        plans.append(decision)
    return plans


def _has_enough_plans(item: Item, labelled: Labelled) -> bool:
    """Return whether an instance has all plans, or at least two after the lead's decision."""
    needed = FEWEST_PLANS
    if labelled.adjudicated(item) is None:
        needed = max(FEWEST_PLANS, labelled.per_item)
    return len(_plans(item, labelled)) >= needed


def _record(item: Item, labelled: Labelled) -> dict[str, Any]:
    """Return the line of an instance in the file of gold plans."""
    plans = [
        {"person": label.person, "steps": official_steps(label.values["plan"])}
        for label in _plans(item, labelled)
    ]
    return {
        "id": item.id,
        "description": item.contents["description"],
        "images": item.contents["images"],
        "plans": plans,
    }
