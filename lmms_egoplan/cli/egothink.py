"""EgoThink's subcommands of ``lmms-egoplan``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lmms_egoplan.benchmarks.aggregations import names
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.judge import DEFAULT_JUDGE, grade_repeatedly
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.benchmarks.egothink.prepare import LENGTH_TOLERANCE, prepare_egothink
from lmms_egoplan.benchmarks.egothink.presets import chosen_judge_protocol
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.asking import (
    RETRY_FILE,
    Batch,
    Concurrency,
    EstimateOnly,
    LlmUsage,
    MaxCost,
    MaxRequests,
    Prices,
    Retry,
    end,
    partial_path,
    written_path,
)
from lmms_egoplan.judging.settings import language_model
from lmms_egoplan.options import OptionalOutFile, OutFile, Overwrite
from lmms_egoplan.outputs import output_file
from lmms_egoplan.prepared_counts import print_dimensions, print_question_sets
from lmms_egoplan.report.egothink import answer_files
from lmms_egoplan.report.egothink.agreement import (
    NONE,
    OVERALL,
    Means,
    RaterAgreement,
    agreement_csv,
    compare,
    noise_by_dimension,
)
from lmms_egoplan.stats.agreement import MIN_ITEMS, RESAMPLES, Estimate, by_question, gaps
from lmms_egoplan.storage import split_dir

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


def prepare(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help=(
                "`hub`, or a folder with `Object/existence/annotations.json`, "
                "`Object/existence/images/1.jpg` and so on. For a folder named hub, write `./hub`."
            ),
        ),
    ],
    marks: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help=(
                "Folder with masks or boxes of the images, such as the output of SAM, for the "
                "tasks `egothink_<dimension>_marked`: `existence/1.json` (or `.png`, a label map) "
                "for the question `existence/1`. Questions without a file are omitted from these "
                "tasks and counted."
            ),
        ),
    ] = None,
) -> None:
    """Prepare the twelve dimensions of EgoThink from its questions and images.

    Example: `lmms-egoplan data prepare egothink hub`

    - `hub` downloads the dataset EgoThink/EgoThink from the Hugging Face hub.
    - A folder is a clone of https://github.com/AdaCheng/EgoThink
    """
    all_summaries = prepare_egothink(source, marks)
    summaries = all_summaries[: len(DIMENSION_NAMES)]
    marked = all_summaries[len(DIMENSION_NAMES) :]
    print_dimensions(summaries)
    print_question_sets(*summaries)
    questions = sum(summary["questions"] for summary in summaries)
    folder = split_dir("egothink", summaries[0]["split"]).parent
    typer.echo(
        "Words: mean per question and per answer. They match Table 4 of the paper if within "
        f"{LENGTH_TOLERANCE}.\n"
        "Question types: by the first interrogative word; questions without one are one type. The "
        "paper does not state its rule. Concepts, scenes and videos of Table 4 cannot be counted, "
        "because the records do not name them.\n"
        f"{questions} questions from {summaries[0]['source']}\n"
        f"Written to {folder}"
    )
    for summary in marked:
        typer.echo(
            f"{summary['split']}: marks drawn on {summary['questions']} of "
            f"{summary['split_size']} images"
        )


def judge(
    samples: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLES",
            help=(
                "Answers: folders of runs, sample files `*_samples_egothink_*.jsonl`, JSON lines "
                "with id and answer, or output files of this command. Answers are judged "
                "unchanged: first remove the model's thinking."
            ),
        ),
    ],
    out: OutFile,
    concurrency: Concurrency = None,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help=(
                "Judge each answer this many times and show how much the ratings differ. At "
                "temperature 0, differences come from the endpoint (batches, several servers, "
                "rounding)."
            ),
        ),
    ] = 1,
    protocol: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"Protocol of the judge: {', '.join(PROTOCOLS)}."),
    ] = "",
    retry_rejected: Retry = False,
    batch: Batch = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
    overwrite: Overwrite = False,
) -> None:
    """Judge EgoThink answers from a run or another framework.

    LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY set the endpoint,
    LMMS_EGOPLAN_JUDGE_MODEL sets the model (default gpt-4o-2024-11-20). To resume an interrupted
    run, repeat the command: finished judgements are cached. Answers that the endpoint refused
    earlier are sent last.

    --protocol sets the judge's messages and parameters, and the reading of its ratings. The default
    is the value of LMMS_EGOPLAN_JUDGE_PROTOCOL if it is set, else that of the preset whose tasks
    wrote the answers, else paper.

    If some answers cannot be judged and FILE exists, FILE.partial is written instead.

    Pass the output file to `report` and `show`. To judge in the harness instead, set a judge and
    repeat the run's command with the same `--use_cache`. No answer is generated again.

    Example: `lmms-egoplan judge egothink runs/my-model --out judged.jsonl`
    """
    with output_file(out, samples, overwrite=overwrite, also=[partial_path(out)]):
        asking = LlmUsage(
            retry_rejected,
            estimate,
            prices,
            batch,
            probes=True,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        settings = language_model(DEFAULT_JUDGE, None, asking, concurrency)
        stored = answer_files.read_stored(samples)
        chosen = chosen_judge_protocol(protocol, answer_files.preset_of(stored))
        settings = replace(settings, protocol=chosen.name)
        answers = answer_files.with_questions(stored)
        repeated = grade_repeatedly(answers, settings, repeats)
        settings.asking.finish_estimate()
        judged = repeated[0]
        unjudged = 0
        for repeats_of_answer in zip(*repeated, strict=True):
            unjudged += any(answer.rating is None for answer in repeats_of_answer)
        written = written_path(out, unjudged)
        answer_files.write_judged(written, repeated, [answer.run for answer in stored])
        _print_scores(judged)
        if repeats > 1:
            _print_noise(repeated)
        settings.asking.print_cost()
        scope = " in each repeat" if repeats > 1 else ""
        end(written, unjudged, len(judged), scope, RETRY_FILE)


def agreement(
    judged: Annotated[
        list[Path] | None,
        typer.Argument(
            help=(
                "Output files of `lmms-egoplan judge`, sample files of lmms-eval, or folders of "
                "sample files. Each path is one judge. All judges must have rated the same answers."
            )
        ),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(
            help=(
                "CSV with a column id and one column per person. Cells are 0, 0.5, 1, or empty if "
                "not rated. A column with means of several people may contain any number from 0 "
                "to 1."
            )
        ),
    ] = None,
    out: OptionalOutFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Compare raters of EgoThink answers: mean ratings and agreement.

    - Each rater: the mean, over all questions that the rater rated.
    - Each pair of raters: Pearson's r and Cohen's kappa (unweighted and with linear weights), over
      the questions that both rated.
    - Three or more judges, people or both: Krippendorff's alpha (interval), over the questions with
      two or more ratings.
    - Several people: also combined into one rater, their mean, as in Table 10 of the paper. Means
      get Pearson's r only.

    Results are per dimension and overall, with 95 % bootstrap intervals. The output file has all of
    them, as CSV. n is the number of
    questions. Coefficients are from -1 to 1; Table 9 of the paper prints Pearson's r times 100.
    There is no coefficient for fewer than ten questions, or if all ratings of a rater are equal.

    Example: `lmms-egoplan agreement egothink gpt-4o.jsonl qwen.jsonl --human annotators.csv --out
    agreement.csv`
    """
    paths = judged or []
    human_and_judges = [*paths, human] if human else paths
    with output_file(out, human_and_judges, overwrite=overwrite):
        if len({path.resolve() for path in paths}) < len(paths):
            raise typer.BadParameter("duplicate file; pass each file once")
        raters = answer_files.read_raters(paths, human)
        if len(raters) < 2:
            raise typer.BadParameter(f"at least two raters are required, got {len(raters)}")
        _print_counts(raters)
        means, rows = compare(raters, list(raters)[: len(paths)])
        if out is not None:
            write_whole(out, agreement_csv(rows))
        _print_means(means)
        _print_agreement(rows)
        if out is not None:
            typer.echo(f"Written to {out}")


def _print_scores(judged: Sequence[JudgedAnswer]) -> None:
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


def _print_noise(repeated: Sequence[Sequence[JudgedAnswer]]) -> None:
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


def _print_counts(raters: Mapping[str, answer_files.Rated]) -> None:
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
        between = answer_files.between_levels(rated)
        if between:
            question, rating = next(iter(between.items()))
            typer.echo(
                f"  {rater}: {len(between)} ratings are not 0, 0.5 or 1, first {rating:g} for "
                f"{question}; compared without kappa, like means of several raters"
            )


def _print_means(means: Means) -> None:
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


def _print_agreement(rows: Sequence[RaterAgreement]) -> None:
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


def _format(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)
