"""Measure the agreement between raters of EgoThink's answers: judges, people, and the mean of
several people.

The paper reports Pearson's r between judges and the combined people (Table 9), the people's mean
rating (Table 10, with values in steps of a third, as for three people and 50 questions) and a kappa
among three people (sec. 5.2).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from lmms_egoplan.benchmarks.egothink.answer_files import Rated, between_levels
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.judging.agreement import (
    Agreement,
    Estimate,
    agreement,
    by_question,
    krippendorff_alpha,
    pooled,
)
from lmms_egoplan.text import csv_text

OVERALL = "overall"
NONE = "n/a"
PAIR_COEFFICIENTS = ("pearson", "kappa_unweighted", "kappa_linear")
_ALPHA = "krippendorff_alpha"
_ENDS = {"": "value", "_low": "low", "_high": "high"}
_CELLS = [f"{name}{end}" for name in (*PAIR_COEFFICIENTS, _ALPHA) for end in _ENDS]
_COLUMNS = (
    "first",
    "second",
    "dimension",
    "questions",
    "first_mean",
    "second_mean",
    *_CELLS,
    "undefined_resamples",
)

Means = dict[str, dict[str, tuple[float, int]]]
"""Dimension -> rater -> mean rating (0 to 1) and number of ratings. The last entry is for all dimensions."""


class RaterAgreement(NamedTuple):
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
    """Compute the means of all raters and of the combined people, and the agreement of pairs and
    larger groups.

    Args:
        raters: Ratings by rater. A rater with ratings outside `LEVELS` has no kappa, and is not
            combined with others.
        judges: Names of the raters that are judges, not people.
    """
    between_raters = {name for name, rated in raters.items() if between_levels(rated)}
    people = [name for name in raters if name not in judges and name not in between_raters]
    together = f"mean of {len(people)} people"
    while together in raters:
        together += " (together)"
    panel = {together: pooled({name: raters[name] for name in people})} if len(people) > 1 else {}
    all_raters = {name: raters[name] for name in judges} | panel | dict(raters)
    continuous = between_raters | panel.keys()

    questions = list(by_question(all_raters))
    groups = {d.name: [q for q in questions if dimension_of(q) == d.name] for d in DIMENSIONS} | {
        OVERALL: questions
    }
    discrete = [
        tuple(name for name in kind if name not in between_raters)
        for kind in (judges, people, raters)
    ]
    larger_groups = dict.fromkeys(kind for kind in discrete if len(kind) > 2)
    means: Means = {}
    pairs: list[RaterAgreement] = []
    larger: list[RaterAgreement] = []
    for group, members in groups.items():
        rated_by = {
            name: {
                question: rating
                for question in members
                if (rating := rated.get(question)) is not None
            }
            for name, rated in all_raters.items()
        }
        if rater_means := {
            name: (fmean(rated.values()), len(rated)) for name, rated in rated_by.items() if rated
        }:
            means[group] = rater_means
        for first, second in combinations(all_raters, 2):
            both = rated_by[first].keys() & rated_by[second].keys()
            if both and not (first in panel and second in people):
                ratings = [
                    [rated_by[name][question] for question in both] for name in (first, second)
                ]
                pair = agreement(
                    ratings[0], ratings[1], None if {first, second} & continuous else LEVELS
                )
                figures = (
                    tuple(map(fmean, ratings)),
                    pair_coefficients(pair),
                    pair.undefined_resamples,
                )
                pairs.append(RaterAgreement((first, second), group, len(both), *figures))
        for kind in larger_groups:
            units = [
                unit
                for unit in by_question({name: rated_by[name] for name in kind}).values()
                if len(unit) > 1
            ]
            if units:
                alpha = {_ALPHA: krippendorff_alpha(units, LEVELS, is_ordered=True)}
                larger.append(RaterAgreement(kind, group, len(units), (), alpha, None))
    return means, pairs + larger


def pair_coefficients(pair: Agreement) -> dict[str, Estimate | None]:
    """Return the coefficients of two raters by name."""
    return {name: getattr(pair, name) for name in PAIR_COEFFICIENTS}


def coefficient_cells(coefficients: Mapping[str, Estimate | None]) -> dict[str, float | None]:
    """Return values and interval bounds by column."""
    return {
        f"{name}{end}": None if estimate is None else getattr(estimate, field)
        for name, estimate in coefficients.items()
        for end, field in _ENDS.items()
    }


def agreement_csv(rows: Sequence[RaterAgreement]) -> str:
    """Format all coefficients as CSV. Undefined ones are ``n/a``."""
    lines: list[Sequence[str | float | None]] = [_COLUMNS]
    for row in rows:
        first, second = row.raters if len(row.raters) == 2 else (", ".join(row.raters), "")
        first_mean, second_mean = row.means or ("", "")
        cells: dict[str, str | float | None] = {
            **dict.fromkeys(_CELLS, ""),
            **coefficient_cells(row.coefficients),
        }
        numbers = (NONE if cell is None else cell for cell in cells.values())
        lines.append(
            [
                first,
                second,
                row.dimension,
                row.questions,
                first_mean,
                second_mean,
                *numbers,
                row.undefined,
            ]
        )
    return csv_text(lines)
