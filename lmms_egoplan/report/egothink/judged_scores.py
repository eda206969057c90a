"""Print the scores of judged answers, and the noise of a judge that rated them several times."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import typer
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.aggregations import names
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.report.egothink.agreement import NONE, noise_by_dimension


def print_scores(judged: Sequence[JudgedAnswer]) -> None:
    """Print the score of each dimension with answers, their mean, and the judge."""
    table = Table("dimension", "answers", "judged", "score", "coverage")
    complete: dict[str, float] = {}
    incomplete: list[str] = []
    for name in DIMENSION_NAMES:
        answers = [answer for answer in judged if dimension_of(answer.id) == name]
        if not answers:
            continue
        scores = [answer.score for answer in answers if answer.score is not None]
        questions = len(EGOTHINK.load(name))
        if len(scores) == questions:
            complete[name] = fmean(scores)
        else:
            incomplete.append(f"{name} ({len(scores)} of {questions} questions rated)")
        rated = sum(answer.rating is not None for answer in answers)
        table.add_row(
            name,
            f"{len(answers)} of {questions}",
            str(rated),
            _format(fmean(scores) if scores else None, ".1f"),
            f"{rated / len(answers):.1%}",
        )
    Console().print(table)
    _print_average(complete, incomplete)
    failed = sum(answer.rating is None and answer.score is not None for answer in judged)
    if failed:
        typer.echo(f"Failed judgements, in the mean as -1: {failed}")
    judges = [answer.judge for answer in judged if answer.rating is not None]
    typer.echo(f"Judge: {names(judges)}")


def _print_average(complete: Mapping[str, float], incomplete: Sequence[str]) -> None:
    """Print the mean over the dimensions, or why there is none.

    Args:
        complete: Score of each dimension whose questions are all rated.
        incomplete: Other dimensions with answers, with their counts.
    """
    if len(complete) == len(DIMENSION_NAMES):
        typer.echo(f"Average: {fmean(complete.values()):.1f}")
        return
    without_answers = len(DIMENSION_NAMES) - len(complete) - len(incomplete)
    example = f", e.g. {incomplete[0]}" if incomplete else ""
    typer.echo(
        "Average: n/a. It requires a rating for every question of all "
        f"{len(DIMENSION_NAMES)} dimensions. Dimensions without answers: {without_answers}. "
        f"Incomplete dimensions: {len(incomplete)}{example}."
    )


def print_noise(repeated: Sequence[Sequence[JudgedAnswer]]) -> None:
    """Print how much the ratings of the same answers differ, by dimension.

    Args:
        repeated: The answers of each repeat, in the same order.
    """
    ratings: dict[str, list[float | None]] = {}
    for repeats_of_answer in zip(*repeated, strict=True):
        ratings[repeats_of_answer[0].id] = [answer.rating for answer in repeats_of_answer]
    questions = dict(EGOTHINK.official)
    for dimension in {dimension_of(question_id) for question_id in ratings}:
        questions[dimension] = len(EGOTHINK.load(dimension))
    table = Table(
        "dimension", "answers", "scores", "SD of the score", "answers that change", "SD of a rating"
    )
    for name, noise in noise_by_dimension(ratings, questions).items():
        asked = questions.get(name, sum(questions.values()))
        table.add_row(
            name,
            f"{noise.answers} of {asked}",
            " ".join(f"{score:.1f}" for score in noise.scores) or NONE,
            _format(noise.score_sd, ".2f"),
            _format(noise.changed, ".1%"),
            _format(noise.rating_sd and noise.rating_sd / 100, ".3f"),
        )
    typer.echo(
        f"Judge noise: {len(repeated)} judgements per answer. Only answers rated in "
        "every repeat are included."
    )
    Console().print(table)


def _format(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)
