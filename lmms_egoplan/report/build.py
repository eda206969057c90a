"""The whole report: runs read and checked, a section for each benchmark, files and page."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmms_egoplan.benchmarks.actplan import report as actplan
from lmms_egoplan.benchmarks.egointent import report as egointent
from lmms_egoplan.benchmarks.egoplan import report as egoplan
from lmms_egoplan.benchmarks.egothink import report as egothink
from lmms_egoplan.report.gallery import IMAGE_SECONDS
from lmms_egoplan.report.logged_samples import sample_file
from lmms_egoplan.report.page import write_page
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.runs import Run, read_runs
from lmms_egoplan.report.versions import parts_of
from lmms_egoplan.report.writing import write_files

_BENCHMARKS = {"egoplan": egoplan, "egothink": egothink, "egointent": egointent, "actplan": actplan}
# Seconds for all, of which pictures get what the rest leaves, but never less than the second number.
_SECONDS, _LEAST_FOR_PICTURES = 50.0, 5.0
_TITLE = "Egocentric planning: runs beside the published results"


@dataclass(frozen=True)
class Built:
    """What a report holds.

    skipped: what was left out or is missing, and why; a line each.
    """

    page: Path
    runs: int
    benchmarks: int
    tables: int
    figures: int
    questions: int
    skipped: tuple[str, ...]


def build_report(
    folders: Sequence[Path],
    out: Path,
    names: Mapping[Path, str],
    progress: Callable[[str, int, int], None],
    similarity: str | None = None,
) -> Built:
    """Write ``index.html`` into `out`, with tables, figures and the gallery beside it.

    Args:
        folders: see `read_runs`; and files of ``lmms-egoplan judge egothink --repeats``, for a table of judge noise.
        names: see `read_runs`.
        progress: is told what is being done, how much of it is done, and how much there is.
        similarity: the encoder of EgoPlan's goal-answer similarity, as `similarities` takes it.

    Raises:
        LmmsEgoplanError: a path has no run, or a run's samples do not give the harness's own scores.
        OSError: the folder cannot be written.
    """
    started = time.monotonic()
    judged = [path for path in folders if ".jsonl" in path.suffixes and path.is_file() and sample_file(path) is None]
    read = read_runs([path for path in folders if path not in judged], names)
    for done, run in enumerate(read.runs, 1):
        for task_run in run.tasks.values():
            check(run, task_run)
        progress("scores recomputed, runs", done, len(read.runs))
    sections, items = [], []
    benchmarks = 0
    for done, (name, benchmark) in enumerate(_BENCHMARKS.items(), 1):
        settings = {"encoder": similarity} if benchmark is egoplan else {}
        parts = parts_of(name, read.runs)
        benchmarks += bool(parts)
        for part in parts:
            section = benchmark.section(part.runs, **settings)
            if section is not None:
                sections.append(part.section(section))
                items += part.items(benchmark.items(part.runs))
        progress("benchmarks", done, len(_BENCHMARKS))
    noise = egothink.judge_noise(judged)
    if noise is not None:
        sections = [
            replace(each, tables=(*each.tables, noise)) if each.key == "egothink" else each for each in sections
        ]
    write_files(out, sections, progress)
    skipped = read.skipped
    if "egothink" not in {section.key for section in sections}:
        skipped += tuple(f"{path}: left out, no run of EgoThink is there to show judge noise beside" for path in judged)
    remaining = _SECONDS - (time.monotonic() - started)
    write_page(
        out,
        _TITLE,
        sections,
        items,
        [(run.name, _description(run)) for run in read.runs],
        skipped,
        progress,
        picture_seconds=min(IMAGE_SECONDS, max(_LEAST_FOR_PICTURES, remaining)),
    )
    return Built(
        page=out / "index.html",
        runs=len(read.runs),
        benchmarks=benchmarks,
        tables=sum(len(section.tables) for section in sections),
        figures=sum(len(section.figures) for section in sections),
        questions=len(items),
        skipped=skipped,
    )


def _description(run: Run) -> str:
    return f"{run.model}, {run.harness}, {run.time}"
