"""Build a benchmark's section of the report: scores, tables, figures, remarks and slices."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lmms_egoplan.report import document
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.changes import changes_of
from lmms_egoplan.report.findings import finding
from lmms_egoplan.report.ledger import runs_and_ledger
from lmms_egoplan.report.panels import tables_of
from lmms_egoplan.report.published_scores import published_scores
from lmms_egoplan.report.scores import ScoredTask
from lmms_egoplan.report.slices import group_of, slices_of
from lmms_egoplan.report.tables import Table, filled
from lmms_egoplan.text import join_list

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


TableOrFigure = TypeVar("TableOrFigure", Table, document.Figure)


def build_section(report: BenchmarkReport[Any]) -> document.Section | None:
    """Return the benchmark's part of the page.

    Return None if there are neither runs of its tasks nor labels. Without runs, the section has
    only the tables and figures that labels fill.

    Raises:
        LmmsEgoplanError: an input cannot be used.
    """
    if not report.tasks:
        return _section_of_labels(report)
    main_names = dict.fromkeys(task.task for task in report.main_tasks())
    tables: list[Table] = []
    for table in _all_tables(report):
        for part in table.parted() if table is not None else ():
            with_values = filled(part)
            if with_values.rows:
                tables.append(_marked(with_values, report))
    return replace(
        scores_section(report),
        tables=tuple(tables),
        figures=_marked_figures(report),
        remarks=tuple(remarks_of(report)),
        slices=tuple(slices_of(report)),
        changes=tuple(changes_of(report)),
        baselines=tuple(_baselines(report)),
        published=published_scores(report.SPEC, [*main_names]),
    )


def _baselines(report: BenchmarkReport[Any]) -> Iterator[document.Group]:
    """Yield the scores of the baselines that need no model, each with what it does."""
    for task in report.text_baselines:
        group = group_of(task.task, task.run.name, task.main, report.SPEC.clusters)
        yield replace(group, note=report.SPEC.baselines[task.task])


def _section_of_labels(report: BenchmarkReport[Any]) -> document.Section | None:
    """Return the section with the tables and figures that labels fill; None without any."""
    tables = [filled(table) for table in report.tables() if table is not None and table.has_own]
    if not tables:
        return None
    return document.Section(
        report.SPEC.name,
        report.SPEC.title,
        report.SPEC.lead,
        (),
        tuple(_marked(table, report) for table in tables),
        _marked_figures(report),
        tuple(remarks_of(report)) if report.shortcuts else (),
    )


def scores_section(report: BenchmarkReport[Any]) -> document.Section:
    """Return the section for a terminal.

    It is without tables, figures, remarks, slices and changes.
    """
    spec = report.SPEC
    protocols = {line.protocol for line in report.headlines if line.is_main}
    main = [line for line in report.headlines if line.protocol in protocols]
    sentences = finding(spec.title, main, report.differences, report.reference, spec.unit)
    return document.Section(
        spec.name,
        spec.title,
        spec.lead,
        tuple(report.headlines),
        finding=(*sentences, *report.further_findings()),
        unit=spec.unit,
        top=spec.top,
        reference=report.reference,
        differences=report.differences,
    )


def _all_tables(report: BenchmarkReport[Any]) -> Iterator[Table | None]:
    """Yield the benchmark's tables, those of panels, and the runs next to the ledger."""
    yield from report.tables()
    yield from panel_tables(report)
    fields = report.SPEC.ledger_fields
    means = [(task, report.subset_means(task)) for task in report.tasks if task.task in fields]
    yield runs_and_ledger(report.SPEC.name, means, fields)


def panel_tables(report: BenchmarkReport[Any]) -> Iterator[Table]:
    """Return the table of panels of judges, if there are any."""
    tables = tables_of(report.SPEC.name, report.tasks, report.SPEC.panel, report.mean_over)
    return map(filled, tables)


def _marked_figures(report: BenchmarkReport[Any]) -> tuple[document.Figure, ...]:
    return tuple(_marked(figure, report) for figure in report.figures() if figure is not None)


def _marked(part: TableOrFigure, report: BenchmarkReport[Any]) -> TableOrFigure:
    """Mark a table or figure with scores of the demo as meaningless, in its title."""
    if not any(task.is_demo for task in (*report.tasks, *report.shortcuts)):
        return part
    title = f"{part.title} ({document.DEMO})"
    if isinstance(part, document.Figure):
        return replace(part, title=title, draw=partial(_draw_marked, part.draw))
    return replace(part, title=title) if part.has_own else part


def _draw_marked(draw: "Callable[[], Drawing]") -> "Drawing":
    drawing = draw()
    # Below the axes, since the legend is above them.
    drawing.supxlabel(document.DEMO, fontsize="small")
    drawing.set_figheight(drawing.get_figheight() + 0.2)
    return drawing


def remarks_of(report: BenchmarkReport[Any]) -> Iterator[str]:
    """Describe flaws and gaps of the runs, each in a sentence or two.

    Footnotes of the table of results are not repeated: the reasons why main scores are not
    comparable with published ones or have no interval.
    """
    tasks = [*report.own_tasks, *report.shortcuts]
    in_footnotes: set[str] = set()
    for task in report.main_tasks():
        in_footnotes.update(task.objections)
    tasks_by_text: dict[str, list[ScoredTask]] = {}
    for task in tasks:
        texts = [*report.flaws(task), *task.remarks]
        if task.shortcut is None:
            for reason in task.objections:
                if reason not in in_footnotes:
                    texts.append(f"not comparable with published scores: {reason}.")
        for text in texts:
            tasks_by_text.setdefault(text, []).append(task)
    for text, tasks_with_it in tasks_by_text.items():
        yield f"{_who(tasks_with_it, tasks)}: {text}"
    yield from report.gaps()


def _who(tasks: Sequence[ScoredTask], all_tasks: Sequence[ScoredTask]) -> str:
    """Name tasks of runs: "all runs", the task that all runs share, or each task."""
    if len(tasks) == len(all_tasks) > 1:
        return "All runs"
    names = {task.task for task in tasks}
    same_task = [task for task in all_tasks if task.task in names]
    if len(names) == 1 and len(tasks) == len(same_task) > 1:
        return f"All runs of {tasks[0].task}"
    return join_list([task.name for task in tasks], 8)
