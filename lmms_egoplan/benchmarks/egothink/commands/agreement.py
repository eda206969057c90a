"""``lmms-egoplan agreement egothink``: measure how far judges and people agree.

The paper gives Pearson's r between judges and people put together (Table 9), the people's mean (Table 10: thirds of a
point over 50 questions) and a kappa among three people (sec. 5.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
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
    "krippendorff_alpha": "Krippendorff's alpha",
}
_COLUMNS = (
    *("first", "second", "dimension", "questions", "first_mean", "second_mean"),
    *(f"{name}{end}" for name in _COEFFICIENTS for end in ("", "_low", "_high")),
    "undefined_resamples",
)
_NONE = "n/a"
# Characters of the terminal for the dimension, and for each rater beside it: with less, numbers would be cut.
_DIMENSION_WIDTH, _RATER_WIDTH = 13, 16


_Ratings = Mapping[str, Mapping[str, float | None]]
"""Rater, then question, then rating; None for none."""
_Means = Mapping[str, Mapping[str, tuple[float, int]]]
"""Dimension, then rater, then mean rating, 0 to 1, and how many ratings; of all dimensions together last."""


@dataclass(frozen=True)
class _Row:
    """The agreement of some raters on the questions of a dimension, or on all.

    raters: two, or three or more with Krippendorff's alpha alone.
    questions: that both have rated; two or more, of three or more raters.
    means: of two raters, over these questions; 0 to 1.
    coefficients: by name, those of so many raters; None where there is none.
    undefined: resamples in which they are; None of three or more raters.
    """

    raters: tuple[str, ...]
    dimension: str
    questions: int
    means: tuple[float, ...]
    coefficients: "Mapping[str, Estimate | None]"
    undefined: int | None


def agreement(
    judged: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files that `lmms-egoplan judge` wrote, sample files of lmms-eval, or folders with those. Each is one "
            "judge; all have judged the same answers."
        ),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(
            help="CSV with a column id and one for each person: 0, 0.5, 1, or empty where not rated. A column of means "
            "of several people may hold any number from 0 to 1."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="All coefficients as CSV.")] = None,
) -> None:
    """Compare ratings of EgoThink's answers: each rater's mean, and how far raters agree.

    Every pair of raters gets Pearson's r and Cohen's kappa, unweighted and with linear weights. Three or more judges,
    people or both get Krippendorff's alpha (interval). Several people are also put together into one rater, their mean,
    as in the paper's Table 10. Means get Pearson's r only.

    Each figure is over all questions that it can use, and n says how many: a rater's mean over the rater's own ratings,
    a pair over the questions that both have rated, alpha over those with two ratings or more. Figures are per dimension
    and overall, with 95 % bootstrap intervals. Coefficients are from -1 to 1; the paper's Table 9 prints Pearson's r
    times 100. Fewer than ten questions, or a rater whose ratings are all equal, give no coefficient.

    Example: `lmms-egoplan agreement egothink gpt-4o.jsonl qwen.jsonl --human annotators.csv --out agreement.csv`
    """
    from lmms_egoplan.benchmarks.egothink.rating_files import read_raters
    from lmms_egoplan.errors import LmmsEgoplanError
    from lmms_egoplan.files import write_whole
    from lmms_egoplan.judging.agreement import by_question

    paths = judged or []
    if len({path.resolve() for path in paths}) < len(paths):
        raise typer.BadParameter("the same file twice")
    raters = read_raters(paths, human)
    if len(raters) < 2:
        raise typer.BadParameter(f"needs at least two raters, got {len(raters)}")
    given = [len(ratings) for ratings in by_question(raters).values()]
    _print_counts(raters, given)
    if max(given, default=0) < 2:
        raise LmmsEgoplanError("no question has two ratings. Compare raters of the same answers")
    judges = list(raters)[: len(paths)]
    means, rows = _compare(raters, judges)
    if out is not None:
        write_whole(out, _csv(rows))
    _print_means(means)
    _print_agreement(rows)
    if out is not None:
        typer.echo(f"Written to {out}")


def _print_counts(raters: _Ratings, given: Sequence[int]) -> None:
    from lmms_egoplan.judging.agreement import gaps

    by_all, by_several = given.count(len(raters)), sum(count > 1 for count in given)
    typer.echo(f"Questions: {len(given)}. Rated by all {len(raters)} raters: {by_all}; by two or more: {by_several}")
    for rater, (absent, unrated) in gaps(raters).items():
        if absent or unrated:
            typer.echo(f"  {rater}: {absent} not in the file, {unrated} without a rating")


def _compare(raters: _Ratings, judges: Sequence[str]) -> tuple[_Means, list[_Row]]:
    """Means of all raters and of the people together, and the agreement of each pair and of several."""
    from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
    from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
    from lmms_egoplan.benchmarks.egothink.rating_files import between_levels
    from lmms_egoplan.judging.agreement import agreement, by_question, krippendorff_alpha, pooled

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

    questions = by_question(every)
    groups = {d.name: [q for q in questions if dimension_of(q) == d.name] for d in DIMENSIONS} | {_OVERALL: questions}
    discrete = [[rater for rater in kind if rater not in between] for kind in (judges, people, raters)]
    several = dict.fromkeys(tuple(kind) for kind in discrete if len(kind) > 2)
    means: dict[str, dict[str, tuple[float, int]]] = {}
    pairs, together_rows = [], []
    for name, members in groups.items():
        given = {rater: {q: r for q in members if (r := rated.get(q)) is not None} for rater, rated in every.items()}
        means[name] = {rater: (fmean(rated.values()), len(rated)) for rater, rated in given.items() if rated}
        for first, second in combinations(every, 2):
            both = given[first].keys() & given[second].keys()
            if both and not (first in added and second in people):
                ratings = [[given[rater][question] for question in both] for rater in (first, second)]
                found = agreement(*ratings, None if {first, second} & {*between, *added} else LEVELS)
                estimates = (found.pearson, found.kappa_unweighted, found.kappa_linear)
                coefficients = dict(zip(_COEFFICIENTS, estimates, strict=False))
                own = tuple(map(fmean, ratings))
                pairs.append(_Row((first, second), name, len(both), own, coefficients, found.undefined_resamples))
        for kind in several:
            units = [unit for unit in by_question({r: given[r] for r in kind}).values() if len(unit) > 1]
            if units:
                alpha = krippendorff_alpha(units, LEVELS, is_ordered=True)
                together_rows.append(_Row(kind, name, len(units), (), {"krippendorff_alpha": alpha}, None))
    return {name: of_raters for name, of_raters in means.items() if of_raters}, [*pairs, *together_rows]


def _print_means(means: _Means) -> None:
    raters = list(means[_OVERALL])
    fitting = max(1, (Console().width - _DIMENSION_WIDTH) // _RATER_WIDTH)
    for start in range(0, len(raters), fitting):
        beside = raters[start : start + fitting]
        table = Table(Column("dimension", no_wrap=True), title="Mean rating, times 100 (n)", pad_edge=False)
        for rater in beside:
            table.add_column(escape(rater), justify="right", overflow="fold")
        for name, of_raters in means.items():
            cells = (of_raters.get(rater) for rater in beside)
            table.add_row(name, *(_NONE if cell is None else f"{100 * cell[0]:.1f} ({cell[1]})" for cell in cells))
        Console().print(table)


def _print_agreement(rows: Sequence[_Row]) -> None:
    from lmms_egoplan.judging.agreement import MIN_ITEMS, RESAMPLES

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
    typer.echo("n: questions that a figure is over. In brackets: 95 % interval.")
    if any(estimate is None for row in rows for estimate in row.coefficients.values()):
        typer.echo(
            f"n/a: fewer than {MIN_ITEMS} questions, a rater whose ratings are all equal, or no kappa because a rater "
            "is a mean of several"
        )
    if undefined := max(row.undefined or 0 for row in rows):
        typer.echo(
            f"* resamples in which a rater's ratings are all equal are left out of the interval: up to {undefined} of "
            f"{RESAMPLES}"
        )


def _shown(estimate: "Estimate | None") -> str:
    return _NONE if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _csv(rows: Sequence[_Row]) -> str:
    from lmms_egoplan.text import csv_text

    lines: list[Sequence[Any]] = [_COLUMNS]
    for row in rows:
        names = row.raters if row.means else (", ".join(row.raters), "")
        cells = (_cells(row.coefficients[name]) if name in row.coefficients else ("",) * 3 for name in _COEFFICIENTS)
        lines.append(
            [*names, row.dimension, row.questions, *(row.means or ("", "")), *chain.from_iterable(cells), row.undefined]
        )
    return csv_text(lines)


def _cells(estimate: "Estimate | None") -> tuple[float | str, ...]:
    return (_NONE,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)
