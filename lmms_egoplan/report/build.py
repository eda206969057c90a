"""The whole report: read and check runs, make a section for each benchmark, write files and page."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmms_egoplan.files import write_whole
from lmms_egoplan.report.benchmark import Inputs, ReportedBenchmark
from lmms_egoplan.report.document import Item, Section
from lmms_egoplan.report.gallery import IMAGE_SECONDS
from lmms_egoplan.report.judged import has_repeats, holds_lines
from lmms_egoplan.report.labelled import labelled_folders
from lmms_egoplan.report.page import write_page
from lmms_egoplan.report.provenance import task_provenance
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.run import Runs
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.summary import summary_table
from lmms_egoplan.report.versions import parts_of
from lmms_egoplan.report.writing import json_of, write_files

# Seconds for the whole report; pictures get the remaining time, at least the second number.
_SECONDS, _LEAST_FOR_PICTURES = 50.0, 5.0


@dataclass(frozen=True)
class Built:
    """A written report.

    skipped: ignored or missing inputs, and why; a line each.
    """

    page: Path
    runs: int
    benchmarks: int
    tables: int
    figures: int
    questions: int
    skipped: tuple[str, ...]
    sections: tuple[Section, ...]


def build_report(
    folders: Sequence[Path],
    out: Path,
    names: Mapping[Path, str],
    benchmarks: Sequence[ReportedBenchmark],
    progress: Callable[[str, int, int], None],
    similarity: str | None = None,
) -> Built:
    """Write ``index.html`` into `out`, with ``report.json``, tables, figures and the gallery next to it.

    Args:
        folders: see `read_runs`; and `Inputs.judged` and `Inputs.labelled`.
        names: see `read_runs`.
        benchmarks: in the order of their sections.
        progress: called with the kind of work, the finished part and the total.
        similarity: see `Inputs`.

    Raises:
        LmmsEgoplanError: a path has no run, or a run's samples contradict the harness's own scores.
        OSError: the folder cannot be written.
    """
    started = time.monotonic()
    judged = [path for path in folders if holds_lines(path) and has_repeats(path)]
    labelled = labelled_folders(folders)
    inputs = Inputs(similarity, tuple(judged), labelled)
    with_runs_in = [path for path in folders if path not in labelled]
    read = read_runs(with_runs_in, names, benchmarks) if with_runs_in or not labelled else Runs((), ())
    for done, run in enumerate(read.runs, 1):
        for task_run in run.tasks.values():
            check(run, task_run)
        progress("scores recomputed, runs", done, len(read.runs))
    sections: list[Section] = []
    items: list[Item] = []
    skipped = read.skipped
    with_runs = 0
    for done, benchmark in enumerate(benchmarks, 1):
        report_of = benchmark.load_report()
        own: list[Section] = []
        parts = parts_of(benchmark.name, read.runs)
        with_runs += bool(parts)
        for part in parts:
            report = report_of(part.runs, inputs)
            section = report.section()
            if section is not None:
                own.append(part.section(section))
                items += part.items(report.items())
        label_folders = [path for path, name in labelled.items() if name == benchmark.name]
        if label_folders and not own:
            section = report_of((), inputs).section()
            if section is not None:
                own.append(section)
            else:
                unused = f"left out, its labels fill no table of {benchmark.title}"
                skipped += tuple(f"{path}: {unused}" for path in label_folders)
        table = report_of.inputs_table(inputs)
        if table is not None and own:
            own[0] = replace(own[0], tables=(*own[0].tables, table))
        elif table is not None:
            beside = f"no run of {benchmark.title} is there to show {table.title.lower()} beside"
            skipped += tuple(f"{path}: left out, {beside}" for path in judged)
        sections += own
        progress("benchmarks", done, len(benchmarks))
    known = [benchmark.name for benchmark in benchmarks]
    skipped += tuple(
        f"{path}: left out, no report shows labels of {name}" for path, name in labelled.items() if name not in known
    )
    summary = summary_table(sections)
    write_files(out, sections, progress, [summary] if summary else [])
    write_whole(out / "report.json", json_of(sections, read.runs, skipped, len(items)))
    remaining = _SECONDS - (time.monotonic() - started)
    write_page(
        out,
        sections,
        items,
        [(run.name, f"{run.model}, {run.harness}, {run.time}") for run in read.runs],
        skipped,
        progress,
        picture_seconds=min(IMAGE_SECONDS, max(_LEAST_FOR_PICTURES, remaining)),
        provenance={
            run.name: (run.provenance, {name: task_provenance(task) for name, task in run.tasks.items()})
            for run in read.runs
        },
    )
    return Built(
        page=out / "index.html",
        runs=len(read.runs),
        benchmarks=with_runs,
        tables=sum(len(section.tables) for section in sections),
        figures=sum(len(section.figures) for section in sections),
        questions=len(items),
        skipped=skipped,
        sections=tuple(sections),
    )
