"""``lmms-egoplan agreement``: how far judges and people agree.

The paper gives Pearson's r between judges and people put together (Table 9), the people's mean (Table 10: thirds of a
point over 50 questions) and a kappa among three people (sec. 5.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

if TYPE_CHECKING:
    from lmms_egoplan.judging.agreement import Estimate

_OVERALL = "overall"
# Coefficients of pairs and of three or more raters, and their titles.
_COEFFICIENTS = {
    "pearson": "Pearson's r",
    "kappa_unweighted": "kappa",
    "kappa_linear": "kappa, linear",
    "fleiss_kappa": "Fleiss' kappa",
}
_COLUMNS = (
    *("first", "second", "dimension", "questions", "first_mean", "second_mean"),
    *(f"{name}{end}" for name in _COEFFICIENTS for end in ("", "_low", "_high")),
    "undefined_resamples",
)
_NONE = "n/a"
# Characters of the terminal for the dimension, and for each rater beside it: with less, numbers would be cut.
_DIMENSION_WIDTH, _RATER_WIDTH = 13, 16


_Means = Mapping[str, Mapping[str, float]]
"""Dimension, then rater, then mean rating, 0 to 1; of all dimensions together last."""


@dataclass(frozen=True)
class _Row:
    """The agreement of some raters on the questions of a dimension, or on all.

    raters: two, or three or more with Fleiss' kappa alone.
    coefficients: by name, those of so many raters; None where one is undefined.
    undefined: resamples in which they are; None of three or more raters.
    """

    raters: tuple[str, ...]
    dimension: str
    questions: int
    coefficients: "Mapping[str, Estimate | None]"
    undefined: int | None


def agreement(
    judged: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files that `lmms-egoplan judge` wrote, sample files of lmms-eval, or folders with those. Each is one "
            "judge; all have judged the same answers.",
            show_default=False,
        ),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(
            help="CSV with a column id and one for each person: 0, 0.5, 1, or empty where not rated. A column of means "
            "of several people may hold any number from 0 to 1."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="All coefficients as CSV.")] = None,
) -> None:
    """Compare ratings of EgoThink's answers: each rater's mean, and how far raters agree.

    Every pair of raters gets Pearson's r and Cohen's kappa, unweighted and with linear weights. Three or more judges,
    people or both get Fleiss' kappa. Several people are also put together into one rater, their mean, as in the
    paper's Table 10. Means get Pearson's r only.

    All is over the questions that all raters have rated, per dimension and overall, with 95 % bootstrap intervals.
    Coefficients are from -1 to 1; the paper's Table 9 prints Pearson's r times 100. Where a rater's ratings are all
    equal there is no number.

    Example: `lmms-egoplan agreement gpt-4o.jsonl qwen.jsonl --human annotators.csv --out agreement.csv`
    """
    from lmms_egoplan.benchmarks.egothink.rating_files import read_raters
    from lmms_egoplan.errors import LmmsEgoplanError
    from lmms_egoplan.judging.agreement import rated_by_all
    from lmms_egoplan.storage import write_whole

    paths = judged or []
    if len({path.resolve() for path in paths}) < len(paths):
        raise typer.BadParameter("the same file twice")
    raters = read_raters(paths, human)
    if len(raters) < 2:
        raise typer.BadParameter(f"needs at least two raters, got {len(raters)}")
    common = rated_by_all(raters)
    _print_counts(raters, len(common))
    if not common:
        raise LmmsEgoplanError("there is no question that all of them have rated")
    judges = list(raters)[: len(paths)]
    means, rows = _compare(raters, judges, common)
    if out is not None:
        write_whole(out, _csv(means, rows))
    _print_means(means)
    _print_agreement(rows)
    if out is not None:
        typer.echo(f"Written to {out}")


def _print_counts(raters: Mapping[str, Mapping[str, float | None]], compared: int) -> None:
    from lmms_egoplan.judging.agreement import gaps

    total = len({question for rated in raters.values() for question in rated})
    typer.echo(f"Compared: {compared} of {total} questions. Left out: {total - compared}")
    for rater, (absent, unrated) in gaps(raters).items():
        if absent or unrated:
            typer.echo(f"  {rater}: {absent} not in the file, {unrated} without a rating")


def _compare(
    raters: Mapping[str, Mapping[str, float | None]], judges: Sequence[str], common: Sequence[str]
) -> tuple[_Means, list[_Row]]:
    from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
    from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
    from lmms_egoplan.benchmarks.egothink.rating_files import between_levels
    from lmms_egoplan.judging.agreement import fleiss_kappa, pairwise, pooled

    between = {rater: found for rater, rated in raters.items() if (found := between_levels(rated))}
    for rater, found in between.items():
        question, rating = next(iter(found.items()))
        typer.echo(
            f"  {rater}: {len(found)} ratings are none of 0, 0.5 and 1, first {rating:g} of {question}; taken as means "
            "of several raters, which have no kappa"
        )
    people = [rater for rater in raters if rater not in judges and rater not in between]
    together = f"mean of {len(people)} people"
    while together in raters:
        together += " (together)"
    added = {together: pooled({rater: raters[rater] for rater in people})} if len(people) > 1 else {}
    every = {rater: raters[rater] for rater in judges} | added | dict(raters)

    by_dimension = {
        dimension.name: [question for question in common if dimension_of(question) == dimension.name]
        for dimension in DIMENSIONS
    }
    groups = {name: questions for name, questions in by_dimension.items() if questions} | {_OVERALL: common}
    discrete = [[rater for rater in kind if rater not in between] for kind in (judges, people, raters)]
    several = [kind for kind in dict.fromkeys(map(tuple, discrete)) if len(kind) > 2]
    means = {
        name: {rater: fmean(rated[question] for question in questions) for rater, rated in every.items()}
        for name, questions in groups.items()
    }
    rows = []
    for name, questions in groups.items():
        for first, second, found in pairwise(every, questions, LEVELS, {*between, *added}):
            if not (first in added and second in people):
                estimates = (found.pearson, found.kappa_unweighted, found.kappa_linear)
                coefficients = dict(zip(_COEFFICIENTS, estimates, strict=False))
                rows.append(_Row((first, second), name, len(questions), coefficients, found.undefined_resamples))
    for name, questions in groups.items():
        for kind in several:
            ratings = [[raters[rater][question] for question in questions] for rater in kind]
            rows.append(_Row(kind, name, len(questions), {"fleiss_kappa": fleiss_kappa(ratings, LEVELS)}, None))
    return means, rows


def _print_means(means: _Means) -> None:
    raters = list(means[_OVERALL])
    fitting = max(1, (Console().width - _DIMENSION_WIDTH) // _RATER_WIDTH)
    for start in range(0, len(raters), fitting):
        beside = raters[start : start + fitting]
        table = Table(Column("dimension", no_wrap=True), title="Mean rating, times 100", pad_edge=False)
        for rater in beside:
            table.add_column(escape(rater), justify="right", overflow="fold")
        for name, of_raters in means.items():
            table.add_row(name, *(f"{100 * of_raters[rater]:.1f}" for rater in beside))
        Console().print(table)


def _print_agreement(rows: Sequence[_Row]) -> None:
    from lmms_egoplan.judging.agreement import RESAMPLES

    by_raters: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        by_raters.setdefault(row.raters, []).append(row)
    for raters, of_raters in by_raters.items():
        title = escape((" and " if len(raters) == 2 else ", ").join(raters))
        names = (_COEFFICIENTS[name] for name in of_raters[0].coefficients)
        table = Table("dimension", Column("n", justify="right"), *names, pad_edge=False, title=title)
        for row in of_raters:
            mark = "*" if row.undefined else ""
            table.add_row(row.dimension, f"{row.questions}{mark}", *map(_shown, row.coefficients.values()))
        Console().print(table)
    typer.echo("n: questions. In brackets: 95 % interval.")
    if undefined := max(row.undefined or 0 for row in rows):
        typer.echo(
            f"* resamples in which a rater's ratings are all equal are left out of the interval: up to {undefined} of "
            f"{RESAMPLES}"
        )


def _shown(estimate: "Estimate | None") -> str:
    return _NONE if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _csv(means: _Means, rows: Sequence[_Row]) -> str:
    from lmms_egoplan.text import csv_text

    lines: list[Sequence[Any]] = [_COLUMNS]
    for row in rows:
        is_pair = len(row.raters) == 2
        names = row.raters if is_pair else (", ".join(row.raters), "")
        of_both = [means[row.dimension][rater] for rater in row.raters] if is_pair else ["", ""]
        cells = (_cells(row.coefficients[name]) if name in row.coefficients else ("",) * 3 for name in _COEFFICIENTS)
        lines.append([*names, row.dimension, row.questions, *of_both, *chain.from_iterable(cells), row.undefined])
    return csv_text(lines)


def _cells(estimate: "Estimate | None") -> tuple[float | str, ...]:
    return (_NONE,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)
