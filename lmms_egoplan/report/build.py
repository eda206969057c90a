"""Build the report: read runs and inputs, and write page, tables, figures and gallery."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.files import write_whole
from lmms_egoplan.outputs import results_of
from lmms_egoplan.report.benchmarks import read_reports, report_class
from lmms_egoplan.report.document import Item, Section, json_of, write_files
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.judged import has_repeats, holds_lines
from lmms_egoplan.report.page import write_page
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.result_table import ResultTable, formatted, result_table
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import Runs, read_runs
from lmms_egoplan.report.samples import labelled_folders
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from lmms_egoplan.report.strips import Pictures
from lmms_egoplan.report.summary import summary_table
from lmms_egoplan.report.tables import filled


@dataclass(frozen=True)
class Built:
    """A written report.

    counts: number of runs, benchmarks, tables, figures and questions, by name.
    skipped: skipped or missing inputs with the reason, one line each.
    pictures: see `Gallery`; "" without questions.
    """

    page: Path
    counts: Mapping[str, int]
    skipped: tuple[str, ...]
    sections: tuple[Section, ...]
    pictures: str


def build_report(
    folders: Sequence[Path],
    out: Path,
    names: Mapping[Path, str],
    benchmarks: Sequence[Benchmark],
    progress: Callable[[str, int, int], None],
    similarity: str | None = None,
    pictures: Pictures = "some",
) -> Built:
    """Write ``index.html``, ``report.json``, tables, figures and the gallery to `out`.

    Args:
        folders: paths for `read_runs`, `Inputs.judged` and `Inputs.labelled`.
        names: see `read_runs`. Their paths are read, too.
        benchmarks: benchmarks in the order of their sections.
        progress: function called with the kind of work, the number of finished items and the total.
        similarity: see `Inputs`.
        pictures: see `write_gallery`.

    Raises:
        LmmsEgoplanError: a path has no run, or a run's samples contradict the harness's own scores.
        OSError: the folder is not writable.
    """
    all_paths = dict.fromkeys((*folders, *names))
    judged = [path for path in all_paths if holds_lines(path) and has_repeats(path)]
    labelled = labelled_folders(folders)
    run_folders = [path for path in folders if path not in labelled]
    run_set = (
        read_runs(run_folders, names, benchmarks)
        if run_folders or names or not labelled
        else Runs((), ())
    )
    models = tuple(run.name for run in run_set.runs)
    inputs = Inputs(similarity, tuple(judged), labelled, models)
    for done, run in enumerate(run_set.runs, 1):
        for task_run in run.tasks.values():
            check(run, task_run)
        progress("scores recomputed, runs", done, len(run_set.runs))
    sections: list[Section] = []
    items: list[Item] = []
    skipped = [*run_set.skipped]
    with_runs = 0
    for done, benchmark in enumerate(benchmarks, 1):
        new_sections, new_items, new_skipped, has_runs = _benchmark_sections(
            benchmark, run_set.runs, inputs
        )
        sections += new_sections
        items += new_items
        skipped += new_skipped
        with_runs += has_runs
        progress("benchmarks", done, len(benchmarks))
    benchmark_names = [benchmark.name for benchmark in benchmarks]
    skipped += [
        f"{path}: skipped; reports cannot show labels of {name}"
        for path, name in labelled.items()
        if name not in benchmark_names
    ]
    summary = summary_table(sections)
    result = result_table(sections)
    with results_of(out) as folder:
        if result is not None:
            _write_result(folder / "tables", result)
        write_files(folder, sections, progress, [summary] if summary else [])
        write_whole(folder / "report.json", json_of(sections, run_set.runs, skipped, len(items)))
        images = out / "gallery" / "images"  # A later report reuses the pictures.
        gallery = write_page(
            folder, sections, items, run_set.runs, skipped, progress, pictures, images
        )
    counts = {
        "runs": len(run_set.runs),
        "benchmarks": with_runs,
        "tables": sum(len(section.tables) for section in sections),
        "figures": sum(len(section.figures) for section in sections),
        "questions": len(items),
    }
    return Built(
        out / "index.html",
        counts,
        tuple(skipped),
        tuple(sections),
        gallery.pictures if gallery else "",
    )


def _write_result(folder: Path, result: ResultTable) -> None:
    """Write the table of results as CSV, Markdown and LaTeX."""
    write_whole(folder / "results.csv", formatted(result, "csv"))
    write_whole(folder / "results.md", formatted(result, "md"))
    write_whole(folder / "results.tex", formatted(result, "latex"))


def _benchmark_sections(
    benchmark: Benchmark, runs: Sequence[Run], inputs: Inputs
) -> tuple[list[Section], list[Item], list[str], bool]:
    """Return a benchmark's sections and questions, its skipped inputs, and true if it has runs."""
    sections: list[Section] = []
    items: list[Item] = []
    skipped: list[str] = []
    reports = list(read_reports(runs, [benchmark], inputs))
    for part, report in reports:
        section = build_section(report)
        if section is not None:
            sections.append(part.section(section))
            items += part.items(gallery_items(report))
    report_of = report_class(benchmark.name)
    label_folders = [path for path, name in inputs.labelled.items() if name == benchmark.name]
    if label_folders and not sections:
        section = build_section(report_of((), inputs))
        if section is not None:
            sections.append(section)
        else:
            reason = f"skipped; no table of {benchmark.title} uses its labels"
            skipped += [f"{path}: {reason}" for path in label_folders]
    table = report_of.inputs_table(inputs)
    if table is not None and sections:
        sections[0] = replace(sections[0], tables=(*sections[0].tables, filled(table)))
    elif table is not None:
        reason = f"{table.title.lower()} needs a run of {benchmark.title}"
        skipped += [f"{path}: skipped; {reason}" for path in inputs.judged]
    return sections, items, skipped, bool(reports)
