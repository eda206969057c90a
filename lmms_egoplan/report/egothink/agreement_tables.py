"""Print the mean ratings and the agreement of EgoThink's raters."""

from collections.abc import Mapping, Sequence

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egothink.agreement import NONE, OVERALL, Means, RaterAgreement
from lmms_egoplan.report.egothink.answer_files import Rated, between_levels
from lmms_egoplan.stats.agreement import MIN_ITEMS, RESAMPLES, Estimate, by_question, gaps

# Width of the columns for the dimension and for each rater. Narrower columns would truncate
# numbers.
_DIMENSION_WIDTH = 13
_RATER_WIDTH = 16
_COEFFICIENT_TITLES = {
    "pearson": "Pearson's r",
    "kappa_unweighted": "kappa",
    "kappa_linear": "kappa, linear",
    "krippendorff_alpha": "Krippendorff's alpha",
}


def print_counts(raters: Mapping[str, Rated]) -> None:
    """Print the number of rated questions, and the raters with ratings between the levels.

    Raises:
        LmmsEgoplanError: No question has two ratings.
    """
    counts = [len(ratings) for ratings in by_question(raters).values()]
    rated_by_all = counts.count(len(raters))
    rated_by_two = sum(count > 1 for count in counts)
    typer.echo(
        f"Questions: {len(counts)}. Rated by all {len(raters)} raters: {rated_by_all}; by two "
        f"or more: {rated_by_two}"
    )
    for rater, (missing, unrated) in gaps(raters).items():
        if missing or unrated:
            typer.echo(f"  {rater}: {missing} not in the file, {unrated} without a rating")
    if not rated_by_two:
        raise LmmsEgoplanError("no question has two ratings; compare raters of the same answers")
    for rater, rated in raters.items():
        between = between_levels(rated)
        if between:
            question, rating = next(iter(between.items()))
            typer.echo(
                f"  {rater}: {len(between)} ratings are not 0, 0.5 or 1, first {rating:g} for "
                f"{question}; compared without kappa, like means of several raters"
            )


def print_means(means: Means) -> None:
    """Print the mean rating of each rater, by dimension, in tables that fit the terminal."""
    raters = list(means[OVERALL])
    fitting = max(1, (Console().width - _DIMENSION_WIDTH) // _RATER_WIDTH)
    for start in range(0, len(raters), fitting):
        group = raters[start : start + fitting]
        table = Table(
            Column("dimension", no_wrap=True), title="Mean rating, times 100 (n)", pad_edge=False
        )
        for rater in group:
            table.add_column(escape(rater), justify="right", overflow="fold")
        for dimension, rater_means in means.items():
            table.add_row(dimension, *(_mean_cell(rater_means.get(rater)) for rater in group))
        Console().print(table)


def _mean_cell(mean_and_count: tuple[float, int] | None) -> str:
    if mean_and_count is None:
        return NONE
    mean, count = mean_and_count
    return f"{100 * mean:.1f} ({count})"


def print_agreement(rows: Sequence[RaterAgreement]) -> None:
    """Print a table of coefficients for each group of raters, and explain their marks."""
    for raters in dict.fromkeys(row.raters for row in rows):
        group = [row for row in rows if row.raters == raters]
        separator = " and " if len(raters) == 2 else ", "
        table = Table(
            "dimension",
            Column("n", justify="right"),
            *(_COEFFICIENT_TITLES[name] for name in group[0].coefficients),
            pad_edge=False,
            title=escape(separator.join(raters)),
        )
        for row in group:
            star = "*" if row.undefined else ""
            cells = [_with_interval(estimate) for estimate in row.coefficients.values()]
            table.add_row(row.dimension, f"{row.questions}{star}", *cells)
        Console().print(table)
    typer.echo("n: number of questions. In brackets: 95 % interval.")
    if any(None in row.coefficients.values() for row in rows):
        typer.echo(
            f"n/a: fewer than {MIN_ITEMS} questions, all ratings of a rater are equal, or no kappa "
            "because a rater is a mean of several raters"
        )
    undefined = max(row.undefined or 0 for row in rows)
    if undefined:
        typer.echo(
            "* the interval excludes resamples in which a rater's ratings are all equal: up to "
            f"{undefined} of {RESAMPLES}"
        )


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return NONE
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
