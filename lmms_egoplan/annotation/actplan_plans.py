"""Write gold plans with human annotators, at least two per instance (sec. 3.2 and 4.2.2)."""

from collections.abc import Iterator, Sequence
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
from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
from lmms_egoplan.benchmarks.actplan.goal_check import GoalCheck, check_goal
from lmms_egoplan.benchmarks.actplan.reply import is_well_formed, official_steps, parsed_steps
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import json_lines, parse_record, read_lines
from lmms_egoplan.text import csv_text, join_list
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
    problem: Text
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
        names = []
        for image in line.images:
            try:
                names.append(folder.keep(resolve_inside(path.parent, image).read_bytes()).name)
            except OSError as error:
                raise LmmsEgoplanError(
                    f"{where}: images: cannot read {image}: {error.strerror}"
                ) from error
        contents = {"description": line.description, "objects": line.objects, "images": names}
        items.append(Item(line.id, contents, {"problem": line.problem}))
    if not items:
        raise LmmsEgoplanError(
            f"{path}: no instances; create the file with lmms-egoplan data build actplan"
        )
    return items


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

    def remarks(self, labelled: Labelled) -> list[str]:
        """Return a note with the results of the goal check, which does not support all actions and
        states.
        """
        checks = [check for item in labelled.items for _, check in _checks(item, labelled)]
        checked = [check for check in checks if check.share is not None]
        missing = sum(bool(check.missed) for check in checked)
        unchecked = len(checks) - len(checked)
        return [
            (
                f"Goal check (a note): {missing} of {len(checked)} plans miss a condition; "
                f"not checkable: {unchecked}"
            )
        ]

    def export(self, labelled: Labelled) -> Export:
        """Export instances with all of their plans to ``gold_plans.jsonl``, and notes to
        ``goal_checks.csv``.
        """
        records = []
        for item in labelled.items:
            labels = _plans(item, labelled)
            if len(labels) >= max(
                FEWEST_PLANS, 0 if labelled.adjudicated(item) else labelled.per_item
            ):
                plans = [
                    {"person": label.person, "steps": official_steps(label.values["plan"])}
                    for label in labels
                ]
                contents = {name: item.contents[name] for name in ("description", "images")}
                records.append({"id": item.id, **contents, "plans": plans})
        closed = sum(labelled.adjudicated(item) is not None for item in labelled.items)
        lines = [
            f"Instances with all gold plans: {len(records)} of {len(labelled.items)}",
            *self.remarks(labelled),
        ]
        lines += (
            [f"Closed by a plan of the lead: {closed}; withdraw it to collect more plans"]
            if closed
            else []
        )
        if not records:
            return Export(lines, {})
        rows: list[list[Any]] = [
            [
                "id",
                "person",
                "steps",
                "understood",
                "reached",
                "missed",
                "unchecked",
                "missed_conditions",
            ]
        ]
        for item in labelled.items:
            for label, check in _checks(item, labelled):
                counts = [
                    check.steps,
                    check.understood,
                    *map(len, (check.reached, check.missed, check.unchecked)),
                ]
                rows.append([item.id, label.person, *counts, "; ".join(check.missed)])
        checks = ExportedFile(csv_text(rows), "goal conditions reached by each plan (notes)")
        plans_file = ExportedFile(json_lines(records), "for data build actplan --plans")
        return Export(lines, {GOLD_PLANS: plans_file, "goal_checks.csv": checks})


FLOW = WrittenPlans()


def _plans(item: Item, labelled: Labelled) -> list[Label]:
    """Return an instance's plans. The lead's decision is another plan, unless it repeats one."""
    written = labelled.of(item, _STAGE)
    decided = labelled.adjudicated(item)
    return (
        [*written, decided]
        if decided and decided.values not in [label.values for label in written]
        else written
    )


def _checks(item: Item, labelled: Labelled) -> Iterator[tuple[Label, GoalCheck]]:
    """Check the goals of each plan of an instance."""
    problem = parse_problem(item.hidden["problem"], item.id)
    for label in _plans(item, labelled):
        yield label, check_goal(problem, parsed_steps(label.values["plan"]))
