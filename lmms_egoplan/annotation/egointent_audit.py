"""Audit the labels and cuts of EgoIntent's steps: rates and durations next to the paper's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.egointent.prepare import duration_counts
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_csv
from lmms_egoplan.text import csv_text

AUDIT = "audit.csv"
REJECTIONS = {
    "hindsight": "no",
    "confusion": "confusion",
    "abstraction": "abstraction",
    "video": "video",
    "other": "other",
}
"""Verdicts that reject a label, by reason in the audit.

The reasons are those of sec. 3.3 (Annotation Quality Control), and another one. "no" was the only
rejection in earlier databases.
"""
_NONE = "n/a"


@dataclass(frozen=True)
class _Printed:
    """A value or counts that the paper prints for a rate.

    Attributes:
        where: Section of the paper.
        value: Percentage or seconds.
        count: Numerator of the rate.
        of: Denominator of the rate.
    """

    where: str
    value: float | None = None
    count: int = 0
    of: int = 0


# The paper's figures on its labels and cuts. Rates are percentages, given as printed or as the
# printed counts. All other values are seconds. The paper prints no counts of reasons.
_PAPER = {
    "candidates_rewritten_for_hindsight_global_intent": _Printed(
        "sec. 3.3, Annotation Procedure: of all candidates", value=6.1
    ),
    "candidates_rewritten_for_hindsight_next_step_plan": _Printed(
        "sec. 3.3, Annotation Procedure: of all candidates", value=13.7
    ),
    "labels_supported_before_the_cut": _Printed(
        "sec. 3.3, Annotation Procedure: labels of 873 steps", value=94.3
    ),
    "cuts_moved": _Printed("sec. 3.3, Temporal Truncation Strategy", count=761, of=3014),
    "outcome_not_yet_visible": _Printed(
        "sec. 3.3, Temporal Truncation Strategy: boundary review", count=957, of=973
    ),
    "median_adjustment_sec": _Printed(
        "sec. 3.3, Temporal Truncation Strategy: of the moved cuts", value=0.11
    ),
    "mean_adjustment_sec": _Printed(
        "sec. 3.3, Temporal Truncation Strategy: of the moved cuts", value=0.23
    ),
    "median_duration_sec": _Printed("sec. 3.4", value=1.87),
    "mean_duration_sec": _Printed("sec. 3.4", value=3.42),
    "p75_duration_sec": _Printed("sec. 3.4", value=3.57),
    "steps_above_10_sec": _Printed("sec. 3.4", count=183, of=3014),
    "rejected_for_confusion": _Printed(
        "sec. 3.3, Annotation Quality Control: the most common source of confusion is the boundary "
        "between local intent and next-step plan"
    ),
    "rejected_for_abstraction": _Printed(
        "sec. 3.3, Annotation Quality Control: main disagreement on global intent"
    ),
}


@dataclass(frozen=True)
class Rate:
    """A rate in percent or a time in seconds.

    Unknown values, and all values read from a file, are texts.

    Attributes:
        rate: Name of the rate.
        value: Value in the export.
        count: Numerator of the rate; for times, the number of measured steps.
        of: Denominator of the rate; for times, the number of all steps.
        paper: The paper's value.
        printed: The paper's counts, if it prints them.
        where: Section of the paper.
    """

    rate: str
    value: float | str
    count: int | str
    of: int | str
    paper: float | str = _NONE
    printed: str = ""
    where: str = ""

    def __str__(self) -> str:
        name = self.rate.replace("_", " ")
        paper = ", ".join(text for text in (str(self.paper), self.printed, self.where) if text)
        return f"{name}: {self.value} ({self.count} of {self.of}; paper: {paper})"


def audit(
    names: Mapping[str, str],
    revisions: Sequence[tuple[dict[str, str], dict[str, Any]]],
    boundaries: Sequence[bool],
    supported: Sequence[Sequence[bool]],
    moves: Sequence[float],
    durations: Sequence[float],
    rejections: Sequence[str] = (),
) -> list[Rate]:
    """Compute the rates of sec. 3.3 and the durations of sec. 3.4.

    Args:
        names: The name of each label in the rates, by field.
        revisions: For each revised step, the candidates and the first person's values.
        boundaries: For each reviewed step, whether its outcome is not yet visible at the cut.
        supported: For each reviewed step, the verdicts on whether its three labels are supported.
        moves: For each finished step, the seconds from the original cut to the final one. Negative
            for an earlier cut, 0 for an unmoved one.
        durations: Durations of the finished steps, seconds.
        rejections: The verdict for each label that a verifier or reviewer rejected, one of the
            values of `REJECTIONS`.
    """
    return [
        *_rates_of_revisions(names, revisions),
        *_rates_of_support(supported),
        *_rates_of_rejections(rejections),
        *_rates_of_cuts(moves, boundaries),
        *_rates_of_durations(durations),
    ]


def _rates_of_revisions(
    names: Mapping[str, str],
    revisions: Sequence[tuple[dict[str, str], dict[str, Any]]],
) -> Iterator[Rate]:
    """Yield, for each label, the rate of candidates that were rewritten for hindsight."""
    for field in FIELDS:
        rewritten = [
            values[f"supported_{field}"] == "no" and values[field] != labels[field]
            for labels, values in revisions
        ]
        rate = _share(f"candidates_rewritten_for_hindsight_{field}", rewritten)
        yield replace(rate, rate=f"candidates_rewritten_for_hindsight_{names[field]}")


def _rates_of_support(supported: Sequence[Sequence[bool]]) -> Iterator[Rate]:
    """Yield the rate of supported labels, and that of steps whose labels are all supported."""
    verdicts = [verdict for step in supported for verdict in step]
    yield _share("labels_supported_before_the_cut", verdicts)
    yield _share("steps_with_all_labels_supported", [all(step) for step in supported])


def _rates_of_rejections(rejections: Sequence[str]) -> Iterator[Rate]:
    """Yield the rate of each reason among the rejections."""
    for reason, verdict in REJECTIONS.items():
        are_of_reason = [rejection == verdict for rejection in rejections]
        yield _share(f"rejected_for_{reason}", are_of_reason)


def _rates_of_cuts(moves: Sequence[float], boundaries: Sequence[bool]) -> Iterator[Rate]:
    """Yield rates of moved cuts and of outcomes not yet visible, and statistics of the moves."""
    yield _share("cuts_moved", [bool(seconds) for seconds in moves])
    yield _share("cuts_moved_earlier", [seconds < 0 for seconds in moves])
    yield _share("cuts_moved_later", [seconds > 0 for seconds in moves])
    yield _share("outcome_not_yet_visible", boundaries)
    adjustments = [abs(seconds) for seconds in moves if seconds]
    for name, statistic in (("median", median), ("mean", fmean)):
        value = round(statistic(adjustments), 3) if adjustments else _NONE
        yield _rate(f"{name}_adjustment_sec", value, len(adjustments), len(moves))


def _rates_of_durations(durations: Sequence[float]) -> Iterator[Rate]:
    """Yield statistics of the durations of steps."""
    statistics = duration_counts(durations) if durations else {}
    for name in ("median", "mean", "p75"):
        value = statistics.get(f"{name}_sec", _NONE)
        yield _rate(f"{name}_duration_sec", value, len(durations), len(durations))
    yield _share("steps_above_10_sec", [duration > 10 for duration in durations])


def audit_csv(rates: Sequence[Rate]) -> str:
    """Return the rates as CSV."""
    return csv_text([[field.name for field in fields(Rate)], *(astuple(rate) for rate in rates)])


def read_audit(labels: Path) -> list[Rate]:
    """Read the rates in an export of `annotate export`.

    Raises:
        LmmsEgoplanError: The file is missing or has another format.
    """
    path = labels / AUDIT
    if not path.is_file():
        raise LmmsEgoplanError(
            f"{path}: no such file; export the labels first: lmms-egoplan annotate export --help"
        )
    names = [field.name for field in fields(Rate)]
    header, *rows = [cells for _, cells in read_csv(path, "audit")] or [[]]
    if header != names:
        raise LmmsEgoplanError(
            f"{path}: expected the columns {', '.join(names)}; export the labels again"
        )
    if any(len(row) != len(names) for row in rows):
        raise LmmsEgoplanError(
            f"{path}: a line has more or fewer values than columns; export the labels again"
        )
    return [Rate(*row) for row in rows]


def print_audit(labels: Path) -> None:
    """Print the rates in an export, see `read_audit`, as a table."""
    table = Table(
        "rate",
        Column("here", justify="right"),
        Column("count", justify="right"),
        Column("paper", justify="right"),
        "in the paper",
    )
    for rate in read_audit(labels):
        table.add_row(
            rate.rate.replace("_", " "),
            str(rate.value),
            f"{rate.count} of {rate.of}",
            str(rate.paper),
            "; ".join(text for text in (rate.printed, rate.where) if text),
        )
    Console().print(table)


def _share(name: str, verdicts: Sequence[bool]) -> Rate:
    return _rate(name, _percent(sum(verdicts), len(verdicts)), sum(verdicts), len(verdicts))


def _percent(count: int, of: int) -> float | str:
    return round(100 * count / of, 1) if of else _NONE


def _rate(name: str, value: float | str, count: int, of: int) -> Rate:
    """Return a rate with the paper's value."""
    paper = _PAPER.get(name)
    if paper is None:
        return Rate(name, value, count, of)
    if paper.of:
        return Rate(
            name,
            value,
            count,
            of,
            paper=_percent(paper.count, paper.of),
            printed=f"{paper.count:,} of {paper.of:,}",
            where=paper.where,
        )
    paper_value = _NONE if paper.value is None else paper.value
    return Rate(name, value, count, of, paper=paper_value, where=paper.where)
