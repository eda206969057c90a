"""EgoThink's subcommands of ``lmms-egoplan``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lmms_egoplan.benchmarks.aggregations import names
from lmms_egoplan.benchmarks.egothink import answer_files
from lmms_egoplan.benchmarks.egothink.agreement import (
    NONE,
    OVERALL,
    Means,
    RaterAgreement,
    agreement_csv,
    compare,
)
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.benchmarks.egothink.metrics import noise_by_dimension
from lmms_egoplan.benchmarks.egothink.prepare import LENGTH_TOLERANCE, prepare_egothink
from lmms_egoplan.benchmarks.egothink.presets import chosen_judge_protocol
from lmms_egoplan.benchmarks.egothink.scoring import DEFAULT_JUDGE, JudgedAnswer, grade_repeatedly
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.agreement import MIN_ITEMS, RESAMPLES, Estimate, by_question, gaps
from lmms_egoplan.judging.asking import (
    Asking,
    Batch,
    Concurrency,
    EstimateOnly,
    MaxCost,
    MaxRequests,
    Out,
    Prices,
    Retry,
    end,
    written_path,
)
from lmms_egoplan.judging.settings import language_model
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.prepared_counts import print_question_sets
from lmms_egoplan.storage import split_dir

_TEXTS: dict[str, Any] = module_yaml(__file__)
_PROTOCOL = f"Protocol of the judge: {', '.join(PROTOCOLS)}."
# Width of the columns for the dimension and for each rater. Narrower columns would truncate
# numbers.
_DIMENSION_WIDTH, _RATER_WIDTH = 13, 16


def prepare(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=_TEXTS["help_source"])],
    marks: Annotated[Path | None, typer.Option(metavar="FOLDER", help=_TEXTS["marks"])] = None,
) -> None:
    """Prepare the twelve dimensions of EgoThink from its questions and images.

    Example: `lmms-egoplan data prepare egothink hub`

    - `hub` downloads the dataset EgoThink/EgoThink from the Hugging Face hub.
    - A folder is a clone of https://github.com/AdaCheng/EgoThink
    """
    summaries = prepare_egothink(source, marks)
    summaries, marked = summaries[: len(DIMENSION_NAMES)], summaries[len(DIMENSION_NAMES) :]
    print_dimensions(summaries)
    print_question_sets(*summaries)
    questions, folder = (
        sum(summary["questions"] for summary in summaries),
        split_dir("egothink", summaries[0]["split"]),
    )
    facts = {
        "tolerance": LENGTH_TOLERANCE,
        "questions": questions,
        "source": summaries[0]["source"],
    }
    typer.echo(_TEXTS["prepared"].format(**facts, folder=folder.parent))
    for summary in marked:
        typer.echo(_TEXTS["marked"].format(**summary))


@also_writes("{name}.partial")
def judge(
    samples: Annotated[list[Path], typer.Argument(help=_TEXTS["help_samples"], metavar="SAMPLES")],
    out: Out,
    concurrency: Concurrency = None,
    repeats: Annotated[int, typer.Option(min=1, max=100, help=_TEXTS["help_repeats"])] = 1,
    protocol: Annotated[str, typer.Option(metavar="NAME", help=_PROTOCOL)] = "",
    retry_rejected: Retry = False,
    batch: Batch = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
) -> None:
    """Judge EgoThink answers from a run or another framework.

    LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY set the endpoint,
    LMMS_EGOPLAN_JUDGE_MODEL sets the model (default gpt-4o-2024-11-20). To resume an interrupted
    run, repeat the command: finished judgements are cached. Answers that the endpoint refused
    earlier are sent last.

    --protocol sets the judge's messages and parameters, and the reading of its ratings. The default
    is the value of LMMS_EGOPLAN_JUDGE_PROTOCOL if it is set, else that of the preset in
    LMMS_EGOPLAN_PROTOCOL, else paper.

    Pass the output file to `report` and `show`. To judge in the harness instead, set a judge and
    repeat the run's command with the same `--use_cache`. No answer is generated again.

    Example: `lmms-egoplan judge egothink runs/my-model --out judged.jsonl`
    """
    asking = Asking(
        retry_rejected,
        estimate,
        prices,
        batch,
        probes=True,
        max_requests=max_requests,
        max_cost=max_cost,
    )
    settings = language_model(DEFAULT_JUDGE, None, asking, concurrency)
    settings = replace(settings, protocol=chosen_judge_protocol(protocol).name)
    stored = answer_files.read_stored(samples)
    answers = answer_files.with_questions(stored)
    repeated = grade_repeatedly(answers, settings, repeats)
    settings.asking.finish_estimate()
    judged = repeated[0]
    unjudged = sum(
        None in (answer.rating for answer in same) for same in zip(*repeated, strict=True)
    )
    written = written_path(out, unjudged)
    answer_files.write_judged(written, repeated, [answer.run for answer in stored])
    _print_scores(judged)
    if repeats > 1:
        _print_noise(repeated)
    settings.asking.print_cost()
    end(written, unjudged, len(judged), " in each repeat" if repeats > 1 else "")


def agreement(
    judged: Annotated[list[Path] | None, typer.Argument(help=_TEXTS["help_judged"])] = None,
    human: Annotated[Path | None, typer.Option(help=_TEXTS["help_human"])] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=_TEXTS["help_out"])] = None,
) -> None:
    """Compare raters of EgoThink answers: mean ratings and agreement.

    - Each rater: the mean, over all questions that the rater rated.
    - Each pair of raters: Pearson's r and Cohen's kappa (unweighted and with linear weights), over
      the questions that both rated.
    - Three or more judges, people or both: Krippendorff's alpha (interval), over the questions with
      two or more ratings.
    - Several people: also combined into one rater, their mean, as in Table 10 of the paper. Means
      get Pearson's r only.

    Results are per dimension and overall, with 95 % bootstrap intervals. n is the number of
    questions. Coefficients are from -1 to 1; Table 9 of the paper prints Pearson's r times 100.
    There is no coefficient for fewer than ten questions, or if all ratings of a rater are equal.

    Example: `lmms-egoplan agreement egothink gpt-4o.jsonl qwen.jsonl --human annotators.csv --out
    agreement.csv`
    """
    paths = judged or []
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


def print_dimensions(summaries: Sequence[Mapping[str, Any]]) -> None:
    """Print a row for each dimension: the counts of `compare_with_table_4`, with those of the paper
    in parentheses.
    """
    labels = {name: name.replace("_", " ") for name in summaries[0]["counts"]}
    dimension = Column("dimension", no_wrap=True)
    table = Table(
        dimension,
        *(f"{label} (paper)" for label in labels.values()),
        "as in the paper",
        pad_edge=False,
    )
    for summary in summaries:
        counts = summary["counts"]
        differing = [labels[name] for name in labels if not counts[name]["matches"]]
        forms = (
            "{prepared:.2f} ({paper:.2f})" if "words" in name else "{prepared} ({paper})"
            for name in labels
        )
        cells = (form.format(**counts[name]) for name, form in zip(labels, forms, strict=True))
        table.add_row(
            summary["split"], *cells, f"no: {', '.join(differing)}" if differing else "yes"
        )
    Console().print(table)


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
        score = _format(fmean(scores) if scores else None, ".1f")
        rated = sum(answer.rating is not None for answer in answers)
        table.add_row(
            name, f"{len(answers)} of {questions}", str(rated), score, f"{rated / len(answers):.1%}"
        )
    Console().print(table)
    if len(complete) == len(DIMENSION_NAMES):
        typer.echo(f"Average: {fmean(complete.values()):.1f}")
    else:
        counts = {"dimensions": len(DIMENSION_NAMES), "incomplete": len(incomplete)}
        counts["without_answers"] = len(DIMENSION_NAMES) - len(complete) - len(incomplete)
        typer.echo(
            _TEXTS["no_average"].format(
                **counts, example=f", e.g. {incomplete[0]}" if incomplete else ""
            )
        )
    if failed := sum(answer.rating is None and answer.score is not None for answer in judged):
        typer.echo(f"Failed judgements, in the mean as -1: {failed}")
    typer.echo(
        "Judge: "
        f"{names([{'judge': answer.judge} for answer in judged if answer.rating is not None])}"
    )


def _print_noise(repeated: Sequence[Sequence[JudgedAnswer]]) -> None:
    ratings = {
        same[0].id: [answer.rating for answer in same] for same in zip(*repeated, strict=True)
    }
    table = Table(
        "dimension", "answers", "scores", "SD of the score", "answers that change", "SD of a rating"
    )
    questions = {
        **EGOTHINK.official,
        **{name: len(EGOTHINK.load(name)) for name in {*map(dimension_of, ratings)}},
    }
    for name, noise in noise_by_dimension(ratings, questions).items():
        table.add_row(
            name,
            f"{noise.answers} of {questions.get(name, sum(questions.values()))}",
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
    by_all, by_two = counts.count(len(raters)), sum(count > 1 for count in counts)
    typer.echo(
        f"Questions: {len(counts)}. Rated by all {len(raters)} raters: {by_all}; by two "
        f"or more: {by_two}"
    )
    for rater, (missing, unrated) in gaps(raters).items():
        if missing or unrated:
            typer.echo(f"  {rater}: {missing} not in the file, {unrated} without a rating")
    if not by_two:
        raise LmmsEgoplanError("no question has two ratings; compare raters of the same answers")
    for rater, rated in raters.items():
        if between := answer_files.between_levels(rated):
            question, rating = next(iter(between.items()))
            typer.echo(
                f"  {rater}: {len(between)} ratings are not 0, 0.5 or 1, first {rating:g} for "
                f"{question}; compared "
                "without kappa, like means of several raters"
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
        for name, rater_means in means.items():
            cells = (rater_means.get(rater) for rater in group)
            table.add_row(
                name,
                *(NONE if cell is None else f"{100 * cell[0]:.1f} ({cell[1]})" for cell in cells),
            )
        Console().print(table)


def _print_agreement(rows: Sequence[RaterAgreement]) -> None:
    for raters in dict.fromkeys(row.raters for row in rows):
        group = [row for row in rows if row.raters == raters]
        title = escape((" and " if len(raters) == 2 else ", ").join(raters))
        heads = (_TEXTS["coefficients"][name] for name in group[0].coefficients)
        table = Table(
            "dimension", Column("n", justify="right"), *heads, pad_edge=False, title=title
        )
        for row in group:
            questions = f"{row.questions}{'*' if row.undefined else ''}"
            table.add_row(row.dimension, questions, *map(_with_interval, row.coefficients.values()))
        Console().print(table)
    typer.echo("n: number of questions. In brackets: 95 % interval.")
    if any(estimate is None for row in rows for estimate in row.coefficients.values()):
        typer.echo(_TEXTS["undefined"].format(fewest=MIN_ITEMS))
    if undefined := max(row.undefined or 0 for row in rows):
        typer.echo(_TEXTS["excluded"].format(undefined=undefined, resamples=RESAMPLES))


def _with_interval(estimate: Estimate | None) -> str:
    return (
        NONE
        if estimate is None
        else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
    )


def _format(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)
