"""``report.json``: all numbers of a report, in the schema of ``docs/report-json.md``."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from lmms_egoplan import __version__
from lmms_egoplan.report.document import Group, Headline, Section, Table
from lmms_egoplan.report.provenance import task_provenance
from lmms_egoplan.report.run import Run

SCHEMA = 1


def json_of(sections: Sequence[Section], runs: Sequence[Run], skipped: Sequence[str], questions: int) -> str:
    """Format the file; unknown values are null, without NaN and infinities.

    Args:
        questions: their number in the gallery.
    """
    content = {
        "schema": SCHEMA,
        "package": {"name": "lmms-egoplan", "version": __version__},
        "made": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "questions": questions,
        "runs": [_run(run) for run in runs],
        "benchmarks": [_section(section) for section in sections],
        "skipped": skipped,
    }
    return json.dumps(_known(content), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _run(run: Run) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in ("name", "model", "harness", "time", "provenance")},
        "tasks": {name: task_provenance(task) for name, task in run.tasks.items()},
    }


def _section(section: Section) -> dict[str, Any]:
    return {
        **{name: getattr(section, name) for name in ("key", "title", "unit", "finding", "remarks")},
        "scores": [_with_ends(line) | {"beside": dict(line.beside)} for line in section.headlines],
        "differences": [asdict(pair) for pair in section.differences],
        "reference": None if section.reference is None else asdict(section.reference),
        "slices": [
            {"attribute": part.attribute, "groups": [_with_ends(group) for group in part.groups]}
            for part in section.slices
        ],
        "changes": [asdict(change) for change in section.changes],
        "tables": [_table(table) for table in section.tables],
        "figures": [
            {"key": figure.key, "title": figure.title, "caption": figure.caption} for figure in section.figures
        ],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        **{name: getattr(table, name) for name in ("key", "title", "role", "source", "notes")},
        "columns": [asdict(column) for column in table.columns],
        "rows": [{"values": row.values, "own": row.is_own} for row in table.rows],
    }


def _with_ends(scored: Headline | Group) -> dict[str, Any]:
    low, high = scored.interval or (None, None)
    return {name: value for name, value in asdict(scored).items() if name != "interval"} | {"low": low, "high": high}


def _known(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _known(one) for key, one in value.items()}
    return [_known(one) for one in value] if isinstance(value, (list, tuple)) else value
