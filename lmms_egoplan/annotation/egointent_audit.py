"""How labels and cuts came about, beside what the paper prints of its own (sec. 3.3 and 3.4)."""

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import fmean, median
from typing import Any

from lmms_egoplan.benchmarks.egointent.prepare import duration_counts
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.text import csv_text

AUDIT = "audit.csv"
_NONE = "n/a"
_PAPER: dict[str, dict[str, Any]] = yaml_beside(__file__)


@dataclass(frozen=True)
class Rate:
    """One rate, in percent, or a time in seconds; texts where nothing is known.

    count, of: what a rate was made of; of times, how many there are of how many steps.
    paper, printed: the paper's value, and its numbers where it prints them.
    where: the section.
    """

    rate: str
    value: float | str
    count: int | str
    of: int | str
    paper: float | str = _NONE
    printed: str = ""
    where: str = ""

    def __str__(self) -> str:
        numbers = f"{self.count} of {self.of}"
        own = [*([f"{self.printed}"] if self.printed else []), *([self.where] if self.where else [])]
        return f"{self.rate.replace('_', ' ')}: {self.value} ({numbers}; paper: {', '.join([str(self.paper), *own])})"


def audit(
    revisions: Sequence[tuple[dict[str, str], dict[str, Any]]],
    boundaries: Sequence[bool],
    supported: Sequence[Sequence[bool]],
    moves: Sequence[float],
    durations: Sequence[float],
) -> list[Rate]:
    """Compute the rates of sec. 3.3, and the durations of sec. 3.4.

    Args:
        revisions: of all steps that have one, the candidates and what the first person made of them.
        boundaries: of each reviewed step, whether its outcome is not yet visible at the cut.
        supported: of each reviewed step, which of its three labels are supported, in the end.
        moves: seconds by which people have moved the cut of each finished step, whoever did; 0 for none.
        durations: seconds of the finished steps.
    """
    moved = [abs(seconds) for seconds in moves if seconds]
    rates = [
        _share(
            f"candidates_rewritten_for_hindsight_{field}",
            [values[f"supported_{field}"] == "no" and values[field] != labels[field] for labels, values in revisions],
        )
        for field in FIELDS
    ]
    rates.append(_share("labels_supported_before_the_cut", [verdict for step in supported for verdict in step]))
    rates.append(_share("steps_with_all_labels_supported", [all(step) for step in supported]))
    rates.append(_share("cuts_moved", [bool(seconds) for seconds in moves]))
    rates.append(_share("outcome_not_yet_visible", boundaries))
    for name, statistic in (("median", median), ("mean", fmean)):
        value = round(statistic(moved), 3) if moved else _NONE
        rates.append(_rate(f"{name}_adjustment_sec", value, len(moved), len(moves)))
    counts = duration_counts(durations) if durations else {}
    for name in ("median", "mean", "p75"):
        rates.append(_rate(f"{name}_duration_sec", counts.get(f"{name}_sec", _NONE), len(durations), len(durations)))
    rates.append(_share("steps_above_10_sec", [duration > 10 for duration in durations]))
    return rates


def audit_csv(rates: Sequence[Rate]) -> str:
    """Return the rates as a file."""
    return csv_text([[field.name for field in fields(Rate)], *(astuple(rate) for rate in rates)])


def read_audit(labels: Path) -> list[Rate]:
    """Read the rates in an export of `annotate export`.

    Raises:
        LmmsEgoplanError: there is no such file, or it is of another form.
    """
    path = labels / AUDIT
    if not path.is_file():
        raise LmmsEgoplanError(f"{path}: no such file; export labels first: lmms-egoplan annotate export --help")
    reader = csv.DictReader(io.StringIO(read_text(path, "audit"), newline=""))
    names = [field.name for field in fields(Rate)]
    if reader.fieldnames != names:
        raise LmmsEgoplanError(f"{path}: expected the columns {', '.join(names)}; export the labels again")
    rows = list(reader)
    if any(None in (*row, *row.values()) for row in rows):
        raise LmmsEgoplanError(f"{path}: a line has more or fewer values than columns; export the labels again")
    return [Rate(**row) for row in rows]


def _share(name: str, verdicts: Sequence[bool]) -> Rate:
    return _rate(name, _percent(sum(verdicts), len(verdicts)), sum(verdicts), len(verdicts))


def _percent(count: int, of: int) -> float | str:
    return round(100 * count / of, 1) if of else _NONE


def _rate(name: str, value: float | str, count: int, of: int) -> Rate:
    paper = _PAPER.get(name, {})
    printed = f"{paper['count']:,} of {paper['of']:,}" if "count" in paper else ""
    theirs = _percent(paper["count"], paper["of"]) if printed else paper.get("paper", _NONE)
    return Rate(name, value, count, of, theirs, printed, paper.get("where", ""))
