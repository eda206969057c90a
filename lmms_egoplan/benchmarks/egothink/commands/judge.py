"""``lmms-egoplan judge egothink``: have stored answers judged."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from lmms_egoplan.judging.asking import Asking, EstimateOnly, Prices, RetryRejected
from lmms_egoplan.judging.later import Concurrency, Out, end, judge_for, written_path
from lmms_egoplan.outputs import also_writes

if TYPE_CHECKING:
    from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer


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
    from lmms_egoplan.benchmarks.egothink.answer_files import read_stored, with_questions, write_judged
    from lmms_egoplan.benchmarks.egothink.scoring import DEFAULT_JUDGE, grade_repeatedly
    from lmms_egoplan.judging import probe

    settings = judge_for(DEFAULT_JUDGE, concurrency, Asking(retry_rejected, estimate, prices))
    stored = read_stored(samples)
    answers = with_questions(stored)
    if not estimate:
        probe(settings)
    repeated = grade_repeatedly(answers, settings, repeats)
    judged = repeated[0]
    unjudged = sum(None in (answer.rating for answer in same) for same in zip(*repeated, strict=True))
    written = written_path(out, unjudged)
    write_judged(written, repeated, [answer.run for answer in stored])
    _print_scores(judged)
    if repeats > 1:
        _print_noise(repeated)
    end(written, unjudged, len(judged), " in each repeat" if repeats > 1 else "")


def _print_scores(judged: Sequence["JudgedAnswer"]) -> None:
    from lmms_egoplan.benchmarks.aggregations import names
    from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
    from lmms_egoplan.benchmarks.egothink.metrics import plain_average
    from lmms_egoplan.benchmarks.egothink.splits import PREPARED

    table = Table("dimension", "answers", "judged", "score", "coverage")
    complete, incomplete = {}, []
    for name in (dimension.name for dimension in DIMENSIONS):
        answers = [answer for answer in judged if dimension_of(answer.id) == name]
        if not answers:
            continue
        scores = [100 * answer.rating for answer in answers if answer.rating is not None]
        questions = len(PREPARED.load(name))
        if len(scores) == questions:
            complete[name] = fmean(scores)
        else:
            incomplete.append(f"{name} ({len(scores)} of {questions} questions rated)")
        score = f"{fmean(scores):.1f}" if scores else "n/a"
        coverage = f"{len(scores) / len(answers):.1%}"
        table.add_row(name, f"{len(answers)} of {questions}", str(len(scores)), score, coverage)
    Console().print(table)
    if len(complete) == len(DIMENSIONS):
        typer.echo(f"Average: {plain_average(complete):.1f}")
    else:
        without = len(DIMENSIONS) - len(complete) - len(incomplete)
        example = f", e.g. {incomplete[0]}" if incomplete else ""
        typer.echo(
            f"Average: n/a. It needs a rating for every question of all {len(DIMENSIONS)} dimensions. Dimensions "
            f"without answers: {without}. Incomplete ones: {len(incomplete)}{example}."
        )
    judges = [{"judge": answer.judge if answer.rating is not None else None} for answer in judged]
    typer.echo(f"Judge: {names(judges)}")


def _print_noise(repeated: Sequence[Sequence["JudgedAnswer"]]) -> None:
    from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
    from lmms_egoplan.benchmarks.egothink.metrics import noise_by_dimension
    from lmms_egoplan.benchmarks.egothink.splits import OFFICIAL, PREPARED

    ratings = {same[0].id: [answer.rating for answer in same] for same in zip(*repeated, strict=True)}
    table = Table("dimension", "answers", "scores", "SD of the score", "answers that change", "SD of a rating")
    questions = OFFICIAL | {name: len(PREPARED.load(name)) for name in {*map(dimension_of, ratings)}}
    for name, noise in noise_by_dimension(ratings, questions).items():
        table.add_row(
            name,
            f"{noise.answers} of {questions.get(name, sum(questions.values()))}",
            " ".join(f"{score:.1f}" for score in noise.scores) or "n/a",
            "n/a" if noise.score_sd is None else f"{noise.score_sd:.2f}",
            "n/a" if noise.changed is None else f"{noise.changed:.1%}",
            "n/a" if noise.rating_sd is None else f"{noise.rating_sd / 100:.3f}",
        )
    typer.echo(f"Judge noise: each answer judged {len(repeated)} times, over the answers with a rating each time")
    Console().print(table)
