"""``report.json``: all numbers of a report, in the schema that ``docs/report-json.md`` documents."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from lmms_egoplan import __version__
from lmms_egoplan.report.document import Section, Table
from lmms_egoplan.report.provenance import task_provenance
from lmms_egoplan.report.run import Run

SCHEMA = 1


def json_of(sections: Sequence[Section], runs: Sequence[Run], skipped: Sequence[str], questions: int) -> str:
    """The file's text; no NaN and no infinity: what is not known is null.

    Args:
        questions: of the gallery.
    """
    content = {
        "schema": SCHEMA,
        "package": {"name": "lmms-egoplan", "version": __version__},
        "made": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "questions": questions,
        "runs": [_run(run) for run in runs],
        "benchmarks": [_section(section) for section in sections],
        "skipped": list(skipped),
    }
    return json.dumps(_known(content), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _run(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "model": run.model,
        "harness": run.harness,
        "time": run.time,
        "provenance": run.provenance,
        "tasks": {name: task_provenance(task) for name, task in run.tasks.items()},
    }


def _section(section: Section) -> dict[str, Any]:
    scores = []
    for line in section.headlines:
        told = asdict(line)
        ends = _ends(told.pop("interval"))
        scores.append(told | ends | {"beside": dict(line.beside), "rank": list(line.rank) if line.rank else None})
    return {
        "key": section.key,
        "title": section.title,
        "unit": section.unit,
        "finding": list(section.finding),
        "remarks": list(section.remarks),
        "scores": scores,
        "differences": [asdict(pair) for pair in section.differences],
        "reference": None if section.reference is None else asdict(section.reference),
        "slices": [
            {
                "attribute": part.attribute,
                "groups": [
                    {name: value for name, value in asdict(group).items() if name != "interval"} | _ends(group.interval)
                    for group in part.groups
                ],
            }
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
        "key": table.key,
        "title": table.title,
        "role": table.role,
        "source": table.source,
        "notes": list(table.notes),
        "columns": [asdict(column) for column in table.columns],
        "rows": [{"values": list(row.values), "own": row.is_own} for row in table.rows],
    }


def _ends(interval: Sequence[float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {"low": low, "high": high}


def _known(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _known(one) for key, one in value.items()}
    return [_known(one) for one in value] if isinstance(value, (list, tuple)) else value
