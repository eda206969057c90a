"""Build the table of a benchmark's scores for a terminal."""

from typing import Any

from lmms_egoplan.judging.judgement import DEMO as DEMO_JUDGE
from lmms_egoplan.report import document
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.tables import Table, side_by_side


def compact_table(report: BenchmarkReport[Any], *, with_main: bool = True) -> Table:
    """Return the scores for a terminal, with one column per run and one block per task.

    Args:
        report: the benchmark's report.
        with_main: false to omit the main scores of `summary_tasks`.
    """
    hidden = set() if with_main else {id(task) for task in report.summary_tasks()}
    tasks = report.compact_tasks()
    blocks: dict[str, dict[str, dict[str, str]]] = {}
    for heading in dict.fromkeys(map(report.heading, tasks)):
        block = [task for task in tasks if report.heading(task) == heading]
        lines = blocks.setdefault(heading, {})
        for task in block:
            for label, text in report.cells(task, block).items():
                if label != report.SPEC.compact_main or id(task) not in hidden:
                    lines.setdefault(label, {})[task.run.name] = text
    return side_by_side(
        f"{report.SPEC.name}_compact",
        report.SPEC.compact_title,
        list(dict.fromkeys(task.run.name for task in tasks)),
        blocks,
        _all_terminal_notes(report),
    )


def _all_terminal_notes(report: BenchmarkReport[Any]) -> list[str]:
    """Return the notes of the table for a terminal."""
    notes = list(report.terminal_notes())
    if any(task.is_by_demo for task in report.tasks):
        notes.append(
            f"The judge '{DEMO_JUDGE}' only compares words, so its scores are meaningless."
        )
    demo = dict.fromkeys(task.run.name for task in report.tasks if task.is_demo)
    if demo:
        notes.append(f"{document.DEMO_NOTE} {', '.join(demo)}.")
    notes.append(
        "In parentheses: coverage, the scored share of the benchmark's official questions."
    )
    tasks_by_remark: dict[str, list[str]] = {}
    for task in report.tasks:
        for remark in task.remarks:
            tasks_by_remark.setdefault(remark, []).append(task.name)
    for remark, names in tasks_by_remark.items():
        if len(names) == len(report.tasks):
            notes.append(f"{remark[:1].upper()}{remark[1:]}")
        else:
            notes.append(f"{', '.join(names)}: {remark}")
    return notes
