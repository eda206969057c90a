"""Measure the agreement between raters of EgoThink's answers.

Raters are judges, people, and the mean of several people.

The paper reports Pearson's r between judges and the combined people (Table 9), the people's mean
rating (Table 10, with values in steps of a third, as for three people and 50 questions) and a kappa
among three people (sec. 5.2).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.report.egothink.answer_files import Rated, between_levels
from lmms_egoplan.stats.agreement import (
    Agreement,
    Estimate,
    Noise,
    agreement,
    by_question,
    krippendorff_alpha,
    noise,
    noise_of_average,
    pooled,
)
from lmms_egoplan.text import csv_text

OVERALL = "overall"
NONE = "n/a"
_ALPHA = "krippendorff_alpha"

Means = dict[str, dict[str, tuple[float, int]]]
"""Dimension -> rater -> mean rating (0 to 1) and number of ratings. The last entry is the total."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Agreement of two or more raters on one dimension, or on all dimensions.

    Attributes:
        raters: Names of the raters. Three or more raters have only Krippendorff's alpha.
        dimension: Name of the dimension, or `OVERALL`.
        questions: Number of questions that both raters rated; for three or more raters, that at
            least two rated.
        means: Mean rating of each of two raters over these questions, 0 to 1; empty for three or
            more raters.
        coefficients: Coefficients by name; None if undefined.
        undefined: Number of resamples without coefficients; None for three or more raters.
    """

    raters: tuple[str, ...]
    dimension: str
    questions: int
    means: tuple[float, ...]
    coefficients: Mapping[str, Estimate | None]
    undefined: int | None


def compare(
    raters: Mapping[str, Rated], judges: Sequence[str]
) -> tuple[Means, list[RaterAgreement]]:
    """Compute the mean of each rater, and the agreement of pairs and larger groups.

    The combined people are a rater, too.

    Args:
        raters: Ratings by rater. A rater with ratings outside `LEVELS` has no kappa, and is not
            combined with others.
        judges: Names of the raters that are judges, not people.
    """
    between_raters = {name for name, rated in raters.items() if between_levels(rated)}
    people = [name for name in raters if name not in judges and name not in between_raters]
    panel = _combined(raters, people)
    all_raters = {name: raters[name] for name in judges} | panel | dict(raters)
    continuous = between_raters | panel.keys()
    teams = _teams(
        [name for name in judges if name not in between_raters],
        people,
        [name for name in raters if name not in between_raters],
    )

    means: Means = {}
    pairs: list[RaterAgreement] = []
    larger: list[RaterAgreement] = []
    for dimension, questions in _questions_by_dimension(all_raters).items():
        ratings = {name: _known(rated, questions) for name, rated in all_raters.items()}
        rater_means = {
            name: (fmean(rated.values()), len(rated)) for name, rated in ratings.items() if rated
        }
        if rater_means:
            means[dimension] = rater_means
        for first, second in combinations(all_raters, 2):
            if first in panel and second in people:  # a person is part of the panel
                continue
            is_continuous = first in continuous or second in continuous
            levels = None if is_continuous else LEVELS
            pairs += _compare_pair(dimension, first, second, ratings, levels)
        for team in teams:
            larger += _compare_team(dimension, team, ratings)
    return means, pairs + larger


def _combined(raters: Mapping[str, Rated], people: Sequence[str]) -> dict[str, Rated]:
    """Return the mean of several people under a new name; nothing for fewer than two people."""
    if len(people) < 2:
        return {}
    name = f"mean of {len(people)} people"
    while name in raters:
        name += " (together)"
    return {name: pooled({person: raters[person] for person in people})}


def _teams(*groups: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the different groups of at least three raters."""
    return list(dict.fromkeys(tuple(group) for group in groups if len(group) > 2))


def _questions_by_dimension(raters: Mapping[str, Rated]) -> dict[str, list[str]]:
    """Return the raters' questions by dimension, and all of them under `OVERALL`."""
    questions = list(by_question(raters))
    by_dimension: dict[str, list[str]] = {dimension.name: [] for dimension in DIMENSIONS}
    for question in questions:
        dimension = dimension_of(question)
        if dimension in by_dimension:
            by_dimension[dimension].append(question)
    by_dimension[OVERALL] = questions
    return by_dimension


def _known(rated: Rated, questions: Collection[str]) -> dict[str, float]:
    """Return the ratings of some questions, without those that are missing."""
    ratings: dict[str, float] = {}
    for question in questions:
        rating = rated.get(question)
        if rating is not None:
            ratings[question] = rating
    return ratings


def _compare_pair(
    dimension: str,
    first: str,
    second: str,
    ratings: Mapping[str, Mapping[str, float]],
    levels: Sequence[float] | None,
) -> list[RaterAgreement]:
    """Return the agreement of two raters; nothing if no question has ratings of both.

    Args:
        dimension: Name of the dimension, or `OVERALL`.
        first: Name of a rater.
        second: Name of another rater.
        ratings: Ratings of the dimension's questions by rater.
        levels: See `agreement`.
    """
    rated_by_both = ratings[first].keys() & ratings[second].keys()
    if not rated_by_both:
        return []
    first_ratings = [ratings[first][question] for question in rated_by_both]
    second_ratings = [ratings[second][question] for question in rated_by_both]
    pair = agreement(first_ratings, second_ratings, levels)
    return [
        RaterAgreement(
            raters=(first, second),
            dimension=dimension,
            questions=len(rated_by_both),
            means=(fmean(first_ratings), fmean(second_ratings)),
            coefficients=pair_coefficients(pair),
            undefined=pair.undefined_resamples,
        )
    ]


def _compare_team(
    dimension: str, team: tuple[str, ...], ratings: Mapping[str, Mapping[str, float]]
) -> list[RaterAgreement]:
    """Return the agreement of three or more raters; nothing without a question that two rated."""
    by_any = by_question({name: ratings[name] for name in team})
    units = [unit for unit in by_any.values() if len(unit) > 1]
    if not units:
        return []
    return [
        RaterAgreement(
            raters=team,
            dimension=dimension,
            questions=len(units),
            means=(),
            coefficients={_ALPHA: krippendorff_alpha(units, LEVELS, is_ordered=True)},
            undefined=None,
        )
    ]


def pair_coefficients(pair: Agreement) -> dict[str, Estimate | None]:
    """Return the coefficients of two raters by name."""
    return {
        "pearson": pair.pearson,
        "kappa_unweighted": pair.kappa_unweighted,
        "kappa_linear": pair.kappa_linear,
    }


def coefficient_cells(coefficients: Mapping[str, Estimate | None]) -> dict[str, float | None]:
    """Return values and interval bounds by column."""
    cells: dict[str, float | None] = {}
    for name, estimate in coefficients.items():
        cells[name] = None if estimate is None else estimate.value
        cells[f"{name}_low"] = None if estimate is None else estimate.low
        cells[f"{name}_high"] = None if estimate is None else estimate.high
    return cells


_COEFFICIENT_COLUMNS = (
    "pearson",
    "pearson_low",
    "pearson_high",
    "kappa_unweighted",
    "kappa_unweighted_low",
    "kappa_unweighted_high",
    "kappa_linear",
    "kappa_linear_low",
    "kappa_linear_high",
    "krippendorff_alpha",
    "krippendorff_alpha_low",
    "krippendorff_alpha_high",
)
_COLUMNS = (
    "first",
    "second",
    "dimension",
    "questions",
    "first_mean",
    "second_mean",
    *_COEFFICIENT_COLUMNS,
    "undefined_resamples",
)


def agreement_csv(rows: Sequence[RaterAgreement]) -> str:
    """Format all coefficients as CSV. Undefined ones are ``n/a``."""
    lines: list[Sequence[str | float | None]] = [_COLUMNS]
    for row in rows:
        lines.append(
            [
                *_rater_cells(row),
                row.dimension,
                row.questions,
                *(row.means or ("", "")),
                *_coefficient_cells_of_row(row),
                row.undefined,
            ]
        )
    return csv_text(lines)


def _rater_cells(row: RaterAgreement) -> tuple[str, str]:
    """Return the cells ``first`` and ``second``; three or more raters are all in the first."""
    if len(row.raters) == 2:
        first, second = row.raters
        return first, second
    return ", ".join(row.raters), ""


def _coefficient_cells_of_row(row: RaterAgreement) -> list[str | float]:
    """Return a cell for each of `_COEFFICIENT_COLUMNS`; empty for other numbers of raters."""
    computed = coefficient_cells(row.coefficients)
    cells: list[str | float] = []
    for column in _COEFFICIENT_COLUMNS:
        value = computed.get(column, "")
        cells.append(NONE if value is None else value)
    return cells


def noise_by_dimension(
    ratings: Mapping[str, Sequence[float | None]], questions: Mapping[str, int]
) -> dict[str, Noise]:
    """Return the noise of each dimension with answers, and of their plain mean as ``average``.

    Scores are 0..100. The average has scores only if every question of all dimensions has a rating
    in every repeat.

    Args:
        ratings: At least two ratings of each answer, one per repeat, by id; None for a missing
            rating.
        questions: Number of questions of each dimension.

    >>> ratings = {"existence/1": [1.0, 1.0], "existence/2": [0.5, 0.0]}
    >>> noises = noise_by_dimension(ratings, {"existence": 50})
    >>> noises["existence"].scores, noises["average"].scores, noises["average"].answers
    ((75.0, 50.0), (), 2)
    """
    noises: dict[str, Noise] = {}
    for name in DIMENSION_NAMES:
        percent: list[list[float | None]] = []
        for question, repeated in ratings.items():
            if dimension_of(question) == name:
                percent.append([None if rating is None else 100 * rating for rating in repeated])
        if percent:
            noises[name] = noise(percent)
    average = noise_of_average(list(noises.values()))
    is_complete = all(
        name in noises and noises[name].answers == questions[name] for name in DIMENSION_NAMES
    )
    return noises | {"average": average if is_complete else replace(average, scores=())}
