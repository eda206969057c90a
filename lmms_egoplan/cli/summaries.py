"""How `lmms-egoplan data` shows what it has prepared: counts beside the paper's, what is left out, and where it is."""

from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.activities import ACTIVITY_TYPES
from lmms_egoplan.storage import split_dir, summary_path

_COUNTS = {
    "task_goals": "task goals",
    "question_words": "question words",
    "answer_words": "answer words",
    "question_types": "question types",
    "median_sec": "median duration (s)",
    "mean_sec": "mean duration (s)",
    "p75_sec": "75th percentile (s)",
    "above_10_sec": "above 10 s",
    "normal_activities": "normal activities",
    "counterfactual_activities": "counterfactual activities",
    "normal_instances": "normal instances",
    "counterfactual_instances": "counterfactual instances",
    "normal_steps": "mean steps, normal",
    "counterfactual_steps": "mean steps, counterfactual",
    "scenes": "scenes",
    "most_scenes": "scenes of an activity, at most",
    "most_samples": "samples of an activity in a scene, at most",
    "fewest_images": "images of an instance, at least",
    "most_images": "images of an instance, at most",
    **{name: f"instances, {name}" for name in ACTIVITY_TYPES},
}

# Instances that a line names.
_NAMED = 5


def print_summary(summary: dict[str, Any], unit: str) -> None:
    """EgoPlan's or EgoIntent's summary, which counts in `unit`."""
    Console().print(_counts_table(summary["counts"], "annotations", "file"))
    if summary["missing"]:
        state = "missing or damaged" if summary.get("verified") else "missing"
        left_out = summary["split_size"] - summary["questions"]
        typer.echo(
            f"Left out: {left_out} {unit}. Frames are {state} in {len(summary['missing'])} videos, which are listed "
            f"under missing in {summary_path(summary['benchmark'], summary['split'])}\n"
            f"Results will cover {summary['questions']} of {summary['split_size']} {unit}."
        )
    if summary.get("verified"):
        typer.echo(f"Verified: every frame that a task may read was decoded for all {summary['questions']} {unit}.")
    typer.echo(f"Written to {split_dir(summary['benchmark'], summary['split'])}")


def print_release(summary: dict[str, Any]) -> None:
    """ActPlan-1K's summary."""
    Console().print(_counts_table(summary["counts"], "source", "source"))
    prepared, size, missing = summary["questions"], summary["split_size"], len(summary["missing"])
    path = summary_path(summary["benchmark"], summary["split"])
    typer.echo(
        f"Gold plan 1 is missing in {summary['without_gold_plan_1']} of {prepared} prepared instances, gold plan 2 in "
        f"{summary['without_gold_plan_2']}; mean steps are gold plan 1's, the paper does not say which it counts."
    )
    if missing:
        typer.echo(
            f"Left out: {size - prepared} instances ({missing} folders, listed with reasons under missing in {path}). "
            f"Results will cover {prepared} of {size} instances."
        )
    if outside := summary["images_outside"]:
        named = ", ".join(f"{entry['folder']} ({entry['images']})" for entry in outside[:_NAMED])
        more = f" and {len(outside) - _NAMED} more, all listed under images_outside in {path}"
        typer.echo(
            f"Not 2 to 5 images, as the paper states for an instance: {len(outside)} of {size} instances: {named}"
            f"{more if len(outside) > _NAMED else ''}. They are prepared like the others."
        )
    typer.echo(f"Written to {split_dir(summary['benchmark'], summary['split'])}")


def print_dimensions(summaries: list[dict[str, Any]]) -> None:
    """EgoThink's summaries, a dimension each."""
    from lmms_egoplan.benchmarks.egothink.prepare import LENGTH_TOLERANCE

    columns = ("instances", "question words", "answer words", "question types")
    table = Table("dimension", *(f"{name} (paper)" for name in columns), "as in the paper")
    for summary in summaries:
        counts = summary["counts"]
        differing = [_COUNTS.get(name, name) for name, count in counts.items() if not count["matches"]]
        table.add_row(
            summary["split"],
            "{prepared} ({paper})".format(**counts["instances"]),
            "{prepared:.2f} ({paper:.2f})".format(**counts["question_words"]),
            "{prepared:.2f} ({paper:.2f})".format(**counts["answer_words"]),
            "{prepared} ({paper})".format(**counts["question_types"]),
            f"no: {', '.join(differing)}" if differing else "yes",
        )
    Console().print(table)
    questions = sum(summary["questions"] for summary in summaries)
    typer.echo(
        f"Words: mean per question and per answer, as in the paper's Table 4 if within {LENGTH_TOLERANCE}.\n"
        "Question types: by the first interrogative word; all questions without one are one type. The paper does not "
        "print its rule. Table 4's concepts, scenes and videos cannot be counted: the records do not name them.\n"
        f"{questions} questions from {summaries[0]['source']}\n"
        f"Written to {split_dir('egothink', summaries[0]['split']).parent}"
    )


def _counts_table(counts: dict[str, dict[str, Any]], key: str, origin: str) -> Table:
    """Prepared numbers beside those in the origin (under `key`) and in the paper, where it tells them."""
    table = Table(Column(no_wrap=True), "prepared", f"in the {origin}", "in the paper", f"{origin} as in the paper")
    for name, count in counts.items():
        numbers = ("" if number is None else str(number) for number in (count["prepared"], count[key], count["paper"]))
        table.add_row(_COUNTS.get(name, name), *numbers, {True: "yes", False: "no", None: ""}[count["matches"]])
    return table
