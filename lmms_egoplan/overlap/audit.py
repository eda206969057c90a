"""Audit a benchmark's prepared questions: find them in a model's training data."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.overlap import matching
from lmms_egoplan.overlap.training_files import Item, items_of, read_training
from lmms_egoplan.report.overlap import CSV, DEGREES, JSON, Audit
from lmms_egoplan.report.samples import MARK, write_folder
from lmms_egoplan.text import csv_text, join_list

FILES = (MARK, CSV, JSON)
"""The files of an audit."""


def audit_benchmark(benchmark: str, training: Sequence[Path], out: Path) -> None:
    """Write the audit of a benchmark's first official split, and print its numbers.

    Args:
        benchmark: Name of the benchmark.
        training: Files of the training data. A repeated file is read once.
        out: Output folder.

    Raises:
        LmmsEgoplanError: The questions are not prepared, or a file cannot be read or is invalid.
    """
    prepared = next(data for data in SPLITS if data.benchmark == benchmark)
    split = next(iter(prepared.official))
    docs = list(prepared.load(split))
    questions = [_question(doc) for doc in docs]
    items: list[Item] = []
    for path in dict.fromkeys(training):
        items += read_training(path)
    for line in _training_lines(items, {question.video for question in questions}):
        typer.echo(line)
    rows = [
        {"video_id": doc["video_id"], **row}
        for doc, row in zip(docs, matching.audit(questions, items), strict=True)
    ]
    degrees = {f"{row['video_id']} {row['sample_id']}": row["degree"] for row in rows}
    audit = Audit(fingerprint=prepared.fingerprint(split), questions=degrees)
    files = {
        CSV: csv_text([rows[0], *(row.values() for row in rows)]),
        JSON: audit.model_dump_json(indent=1),
    }
    write_folder(out, benchmark, files)
    counts = Counter(degrees.values())
    for degree in DEGREES[:-1]:
        typer.echo(f"{counts[degree]:7,} {degree}")
    typer.echo(
        f"{len(rows):,} questions of {prepared.title.format(split)} audited. Written to {out / CSV}"
    )


def _question(doc: Mapping[str, Any]) -> Item:
    """Return a prepared question in the form of an item of training data."""
    return next(items_of(doc, str(doc.get("sample_id", doc.get("step_id")))))


def _training_lines(items: Sequence[Item], videos: Collection[str | None]) -> Iterator[str]:
    """Yield the numbers of training records, and of those that cannot be compared completely.

    Args:
        items: The training records.
        videos: The videos of the benchmark.
    """
    unmatched = sorted({item.video for item in items if item.video} - {*videos})
    examples = f", such as {join_list(unmatched, 3)}" if unmatched else ""
    yield (
        f"{len(items):,} training records. Videos outside the benchmark: "
        f"{len(unmatched):,}{examples}"
    )
    yield f"{sum(item.span is None for item in items):,} training records without times"
    unread = [item.where for item in items if item.question and not item.action]
    if unread:
        yield f"Questions without an answer, whose texts are not compared: {join_list(unread, 3)}"
