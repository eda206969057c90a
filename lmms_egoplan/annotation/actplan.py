"""Label ActPlan-1K plans: correctness, commonsense and errors.

The procedure is that of the paper (arXiv 2410.03907, sec. 4.1 and 5.6).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.actplan_plans import pictures
from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.flow import (
    Export,
    ExportedFile,
    Flow,
    Item,
    Label,
    Labelled,
    Scale,
    Stage,
    all_values,
)
from lmms_egoplan.annotation.forms import (
    Choice,
    Contents,
    Earlier,
    Form,
    Marks,
    Option,
    Prose,
    Steps,
    Values,
    majority,
)
from lmms_egoplan.benchmarks.actplan.instances import (
    find_instances,
    instance_key,
    instances_of,
    read_instance,
)
from lmms_egoplan.benchmarks.actplan.plans import (
    ERRORS,
    PLANS,
    VERDICTS,
    GeneratedPlan,
    StoredPlan,
    read_plans,
)
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.text import csv_text

_YES_NO = (Option("1", "1: yes"), Option("0", "0: no"))


def read_items(plans: Sequence[Path], folder: MediaFolder, instances: Path | None) -> list[Item]:
    """Read plans to label. Several plans of one model and instance are numbered.

    Args:
        plans: Files that `read_plans` reads. Plans without a model take the file's name.
        folder: Receives the instances' images.
        instances: The release's folder; None for the prepared data.

    Raises:
        LmmsEgoplanError: A file is invalid, or a plan's instance is missing.
    """
    stored = []
    for path in plans:
        stored += [(plan.model or path.stem, plan) for plan in read_plans(path)]
    return _items(stored, folder, instances)


def _items(
    stored: Sequence[tuple[str, StoredPlan]], folder: MediaFolder, instances: Path | None
) -> list[Item]:
    """Create an item for each plan."""
    names = [f"{plan.plan.id} of {model}" for model, plan in stored]
    counts = Counter(names)
    numbers: Counter[str] = Counter()
    shown_instances = instances_of({plan.plan.id for _, plan in stored}, instances)
    images: dict[Any, list[str]] = {}
    for key, instance in shown_instances.items():
        images[key] = [folder.keep(image).name for image in instance.images]
    items = []
    for name, (model, plan) in zip(names, stored, strict=True):
        numbers[name] += 1
        item_id = name
        if counts[name] > 1:
            item_id += f", plan {numbers[name]}"
        key = instance_key(plan.plan.id)
        contents = {
            "description": shown_instances[key].description,
            "images": images[key],
            "plan": plan.plan.text,
        }
        hidden = {
            "id": plan.plan.id,
            "model": model,
            "images": plan.images,
            "references": ["\n".join(gold) for gold in plan.plan.references],
        }
        items.append(Item(item_id, contents, hidden))
    return items


class LabelledPlans(Flow):
    """Label plans with correctness, commonsense and errors, without seeing the model's name."""

    name = "actplan"
    title = "ActPlan-1K: label plans"
    stages = (Stage("label", "Labels"),)

    def form(
        self, contents: Contents, _earlier: Earlier = (), _order: int = 0, _stage: str = ""
    ) -> Form:
        """Show task, images and numbered steps. Ask for two verdicts and six error types."""
        steps = tuple(official_steps(contents["plan"]))
        plan = Steps("Plan", steps) if steps else Prose("Plan", "(The plan is empty.)")
        error_types = tuple(Option(key, title) for key, title in ERRORS.items())
        parts = (Prose("Task", contents["description"]), plan, *pictures(contents["images"]))
        fields = (
            Choice("correct", "Correct: does the plan reach the goal?", _YES_NO),
            Choice("commonsense", "Commonsense: is every step plausible?", _YES_NO),
            Marks(
                "errors",
                "Errors",
                error_types,
                len(steps),
                help="Open a type and mark its steps.",
            ),
        )
        return Form(parts, fields)

    def scales(self, _labelled: Labelled) -> Sequence[Scale]:
        """Return a scale for each verdict and for the presence of each error type."""
        verdicts = [Scale(name.capitalize(), ("0", "1"), itemgetter(name)) for name in VERDICTS]
        errors = [
            Scale(f"Error: {title}", (0, 1), partial(_has_error, key))
            for key, title in ERRORS.items()
        ]
        return [*verdicts, *errors]

    def differ(self, _item: Item, rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether the verdicts differ."""
        return len({_verdicts(values) for values in all_values(rounds)}) > 1

    def export(self, labelled: Labelled) -> Export:
        """Export ``plans.jsonl`` for ``score actplan`` and the report, and ``errors.csv``."""
        settled, remarks = labelled.settled(
            self, f"fewer than {labelled.per_item} labels", "verdicts differ"
        )
        records = [_record(item, labels) for item, labels in settled]
        files = {}
        if records:
            files[PLANS] = ExportedFile(json_lines(records), "for score actplan and report")
            files["errors.csv"] = ExportedFile(csv_text(_error_rows(records)), "error types")
        return Export([f"Plans labelled: {len(records)} of {len(labelled.items)}", *remarks], files)

    def demo_items(self, source: Path, folder: MediaFolder) -> list[Item]:
        """Return plans of two invented models.

        One writes gold plan 2, the other gold plan 1 without its first two steps.
        """
        stored = []
        instances, _ = find_instances(source)
        for instance in instances:
            record = read_instance(source, instance)
            golds = (record.gold_plan_1, record.gold_plan_2)
            plans = {"gold": record.gold_plan_2, "late": record.gold_plan_1[2:]}
            for model, steps in plans.items():
                plan = GeneratedPlan(str(instance), "\n".join(steps), golds)
                stored.append((model, StoredPlan(plan, dict.fromkeys(VERDICTS))))
        return _items(stored, folder, source)


FLOW = LabelledPlans()


def _verdicts(values: Values) -> tuple[str, ...]:
    return tuple(values[name] for name in VERDICTS)


def _record(item: Item, labels: Sequence[Label]) -> dict[str, Any]:
    """Create the record of a labelled plan.

    Errors are those that more than half of the annotators marked.
    """
    return {
        "id": item.hidden["id"],
        "model": item.hidden["model"],
        "candidate": item.contents["plan"],
        "images": item.hidden["images"],
        "references": item.hidden["references"],
        **{name: labels[0].values[name] == "1" for name in VERDICTS},
        "errors": majority(FLOW.form(item.contents), [label.values for label in labels])["errors"],
    }


def _error_rows(records: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Count the plans with each error, per model, and its share of all errors (Fig. 6)."""
    rows: list[list[Any]] = [
        ["model", "error", "plans", "plans_with_error", "share_of_errors_percent"]
    ]
    for model in dict.fromkeys(record["model"] for record in records):
        plans = [record["errors"] for record in records if record["model"] == model]
        total = sum(len(errors) for errors in plans)
        for key, title in ERRORS.items():
            count = sum(key in errors for errors in plans)
            share = round(100 * count / total, 1) if total else "n/a"
            rows.append([model, title, len(plans), count, share])
    return rows


def _has_error(key: str, values: Values) -> int:
    return int(key in values["errors"])
