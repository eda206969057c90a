"""EgoThink's subcommands of ``lmms-egoplan``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lmms_egoplan.benchmarks.aggregations import names
from lmms_egoplan.benchmarks.egothink import answer_files
from lmms_egoplan.benchmarks.egothink.agreement import NONE, OVERALL, Means, RaterAgreement, agreement_csv, compare
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.metrics import noise_by_dimension
from lmms_egoplan.benchmarks.egothink.prepare import LENGTH_TOLERANCE, prepare_egothink
from lmms_egoplan.benchmarks.egothink.scoring import DEFAULT_JUDGE, JudgedAnswer, grade_repeatedly
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.agreement import MIN_ITEMS, RESAMPLES, Estimate, by_question, gaps
from lmms_egoplan.judging.asking import Asking, Concurrency, EstimateOnly, Out, Prices, RetryRejected, end, written_path
from lmms_egoplan.judging.judge import probe
from lmms_egoplan.judging.settings import language_model
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.storage import split_dir

_COEFFICIENTS = {
    "pearson": "Pearson's r",
    "kappa_unweighted": "kappa",
    "kappa_linear": "kappa, linear",
    "krippendorff_alpha": "Krippendorff's alpha",
}
# Characters of the terminal for the dimension, and for each rater beside it: with less, numbers would be cut.
_DIMENSION_WIDTH, _RATER_WIDTH = 13, 16


def prepare(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="`hub`, or a folder with `Object/existence/annotations.json`, `Object/existence/images/1.jpg` and so "
            "on. Write `./hub` for a folder of that name.",
        ),
    ],
) -> None:
    """Prepare EgoThink's twelve dimensions from its questions and images.

    Example: `lmms-egoplan data prepare egothink hub`

    - `hub` is the dataset EgoThink/EgoThink on the Hugging Face hub.
    - The folder is that of a clone of https://github.com/AdaCheng/EgoThink
    """
    summaries = prepare_egothink(source)
    _print_dimensions(summaries)
    questions = sum(summary["questions"] for summary in summaries)
    typer.echo(
        f"Words: mean per question and per answer, as in the paper's Table 4 if within {LENGTH_TOLERANCE}.\n"
        "Question types: by the first interrogative word; all questions without one are one type. The paper does not "
        "print its rule. Table 4's concepts, scenes and videos cannot be counted: the records do not name them.\n"
        f"{questions} questions from {summaries[0]['source']}\n"
        f"Written to {split_dir('egothink', summaries[0]['split']).parent}"
    )


@also_writes("{name}.partial")
def judge(
    samples: Annotated[
        list[Path],
        typer.Argument(
            help="Answers: a folder with runs, their files `*_samples_egothink_*.jsonl`, JSON lines with id and "
            "answer, or files that this command wrote. Answers are judged as they are: remove the model's thinking.",
            metavar="SAMPLES",
        ),
    ],
    out: Out,
    concurrency: Concurrency = None,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Ask the judge so many times about each answer, and show how much its ratings differ. The judge is "
            "asked at temperature 0: differences come from the endpoint (batches, several servers, rounding).",
        ),
    ] = 1,
    retry_rejected: RetryRejected = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
) -> None:
    """Judge answers to EgoThink's questions, from a run or from another framework.

    LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY set the endpoint, LMMS_EGOPLAN_JUDGE_MODEL the model
    (gpt-4o-2024-11-20 by default). Judgements are stored as they come: after an interruption, the same command asks
    for the rest only. Answers that the endpoint refused before are asked last.

    `report` and `show` take the file. To judge a run in the harness instead, set a judge and repeat its command with
    `--use_cache`: no answer is generated again.

    Example: `lmms-egoplan judge egothink runs/my-model --out judged.jsonl`
    """
    settings = language_model(DEFAULT_JUDGE, asking=Asking(retry_rejected, estimate, prices), concurrency=concurrency)
    stored = answer_files.read_stored(samples)
    answers = answer_files.with_questions(stored)
    if not estimate:
        probe(settings)
    repeated = grade_repeatedly(answers, settings, repeats)
    judged = repeated[0]
    unjudged = sum(None in (answer.rating for answer in same) for same in zip(*repeated, strict=True))
    written = written_path(out, unjudged)
    answer_files.write_judged(written, repeated, [answer.run for answer in stored])
    _print_scores(judged)
    if repeats > 1:
        _print_noise(repeated)
    end(written, unjudged, len(judged), " in each repeat" if repeats > 1 else "")


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
    paths = judged or []
    if len({path.resolve() for path in paths}) < len(paths):
        raise typer.BadParameter("the same file twice")
    raters = answer_files.read_raters(paths, human)
    if len(raters) < 2:
        raise typer.BadParameter(f"needs at least two raters, got {len(raters)}")
    _print_counts(raters)
    means, rows = compare(raters, list(raters)[: len(paths)])
    if out is not None:
        write_whole(out, agreement_csv(rows))
    _print_means(means)
    _print_agreement(rows)
    if out is not None:
        typer.echo(f"Written to {out}")


def _print_dimensions(summaries: Sequence[Mapping[str, Any]]) -> None:
    labels = {name: name.replace("_", " ") for name in summaries[0]["counts"]}
    dimension = Column("dimension", no_wrap=True)
    table = Table(dimension, *(f"{label} (paper)" for label in labels.values()), "as in the paper", pad_edge=False)
    for summary in summaries:
        counts = summary["counts"]
        differing = [labels[name] for name in labels if not counts[name]["matches"]]
        forms = ("{prepared:.2f} ({paper:.2f})" if "words" in name else "{prepared} ({paper})" for name in labels)
        cells = (form.format(**counts[name]) for name, form in zip(labels, forms, strict=True))
        table.add_row(summary["split"], *cells, f"no: {', '.join(differing)}" if differing else "yes")
    Console().print(table)


def _print_scores(judged: Sequence[JudgedAnswer]) -> None:
    table = Table("dimension", "answers", "judged", "score", "coverage")
    complete: dict[str, float] = {}
    incomplete: list[str] = []
    for name in DIMENSION_NAMES:
        answers = [answer for answer in judged if dimension_of(answer.id) == name]
        if not answers:
            continue
        scores = [100 * answer.rating for answer in answers if answer.rating is not None]
        questions = len(EGOTHINK.load(name))
        if len(scores) == questions:
            complete[name] = fmean(scores)
        else:
            incomplete.append(f"{name} ({len(scores)} of {questions} questions rated)")
        score = _format(fmean(scores) if scores else None, ".1f")
        coverage = f"{len(scores) / len(answers):.1%}"
        table.add_row(name, f"{len(answers)} of {questions}", str(len(scores)), score, coverage)
    Console().print(table)
    if len(complete) == len(DIMENSION_NAMES):
        typer.echo(f"Average: {fmean(complete.values()):.1f}")
    else:
        without = len(DIMENSION_NAMES) - len(complete) - len(incomplete)
        example = f", e.g. {incomplete[0]}" if incomplete else ""
        typer.echo(
            f"Average: n/a. It needs a rating for every question of all {len(DIMENSION_NAMES)} dimensions. Dimensions "
            f"without answers: {without}. Incomplete ones: {len(incomplete)}{example}."
        )
    typer.echo(f"Judge: {names([{'judge': answer.judge} for answer in judged if answer.rating is not None])}")


def _print_noise(repeated: Sequence[Sequence[JudgedAnswer]]) -> None:
    ratings = {same[0].id: [answer.rating for answer in same] for same in zip(*repeated, strict=True)}
    table = Table("dimension", "answers", "scores", "SD of the score", "answers that change", "SD of a rating")
    questions = {**EGOTHINK.official, **{name: len(EGOTHINK.load(name)) for name in {*map(dimension_of, ratings)}}}
    for name, noise in noise_by_dimension(ratings, questions).items():
        table.add_row(
            name,
            f"{noise.answers} of {questions.get(name, sum(questions.values()))}",
            " ".join(f"{score:.1f}" for score in noise.scores) or NONE,
            _format(noise.score_sd, ".2f"),
            _format(noise.changed, ".1%"),
            _format(noise.rating_sd and noise.rating_sd / 100, ".3f"),
        )
    typer.echo(f"Judge noise: each answer judged {len(repeated)} times, over the answers with a rating each time")
    Console().print(table)


def _print_counts(raters: Mapping[str, answer_files.Rated]) -> None:
    """Print how many questions have ratings, and which ratings are means.

    Raises:
        LmmsEgoplanError: No question has two ratings.
    """
    counts = [len(ratings) for ratings in by_question(raters).values()]
    by_all, by_several = counts.count(len(raters)), sum(count > 1 for count in counts)
    typer.echo(f"Questions: {len(counts)}. Rated by all {len(raters)} raters: {by_all}; by two or more: {by_several}")
    for rater, (absent, unrated) in gaps(raters).items():
        if absent or unrated:
            typer.echo(f"  {rater}: {absent} not in the file, {unrated} without a rating")
    if not by_several:
        raise LmmsEgoplanError("no question has two ratings. Compare raters of the same answers")
    for rater, rated in raters.items():
        if between := answer_files.between_levels(rated):
            question, rating = next(iter(between.items()))
            typer.echo(
                f"  {rater}: {len(between)} ratings are none of 0, 0.5 and 1, first {rating:g} of {question}; taken as "
                "means of several raters, which have no kappa"
            )


def _print_means(means: Means) -> None:
    raters = list(means[OVERALL])
    fitting = max(1, (Console().width - _DIMENSION_WIDTH) // _RATER_WIDTH)
    for start in range(0, len(raters), fitting):
        beside = raters[start : start + fitting]
        table = Table(Column("dimension", no_wrap=True), title="Mean rating, times 100 (n)", pad_edge=False)
        for rater in beside:
            table.add_column(escape(rater), justify="right", overflow="fold")
        for name, of_raters in means.items():
            cells = (of_raters.get(rater) for rater in beside)
            table.add_row(name, *(NONE if cell is None else f"{100 * cell[0]:.1f} ({cell[1]})" for cell in cells))
        Console().print(table)


def _print_agreement(rows: Sequence[RaterAgreement]) -> None:
    for raters in dict.fromkeys(row.raters for row in rows):
        of_raters = [row for row in rows if row.raters == raters]
        title = escape((" and " if len(raters) == 2 else ", ").join(raters))
        heads = (_COEFFICIENTS[name] for name in of_raters[0].coefficients)
        table = Table("dimension", Column("n", justify="right"), *heads, pad_edge=False, title=title)
        for row in of_raters:
            questions = f"{row.questions}{'*' if row.undefined else ''}"
            table.add_row(row.dimension, questions, *map(_with_interval, row.coefficients.values()))
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


def _with_interval(estimate: Estimate | None) -> str:
    return NONE if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _format(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)
