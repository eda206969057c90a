"""EgoThink's subcommands of ``lmms-egoplan``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.options import (
    Batch,
    Concurrency,
    EstimateOnly,
    MaxCost,
    MaxRequests,
    Prices,
    Retry,
)
from lmms_egoplan.options import OptionalOutFile, OutFile, Overwrite
from lmms_egoplan.outputs import output_file


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
    from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
    from lmms_egoplan.report.egothink.prepared import print_prepared

    print_prepared(prepare_egothink(source, marks))


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
        typer.Option(
            metavar="NAME", help="Protocol of the judge: paper, authors, lmms-eval-0.7.3."
        ),
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
    from lmms_egoplan.benchmarks.egothink.judge import DEFAULT_JUDGE, grade_repeatedly
    from lmms_egoplan.benchmarks.egothink.presets import chosen_judge_protocol
    from lmms_egoplan.judging.prices import read_prices
    from lmms_egoplan.judging.printing import (
        RETRY_FILE,
        end,
        finish_estimate,
        partial_path,
        print_cost,
        written_path,
    )
    from lmms_egoplan.judging.settings import language_model
    from lmms_egoplan.judging.usage import LlmOptions, LlmUsage
    from lmms_egoplan.report.egothink import answer_files
    from lmms_egoplan.report.egothink.judged_scores import print_noise, print_scores

    with output_file(out, samples, overwrite=overwrite, also=[partial_path(out)]):
        options = LlmOptions(
            retry_rejected=retry_rejected,
            is_estimate=estimate,
            prices=read_prices(prices, batch=batch),
            batch=batch,
            probes=True,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        settings = language_model(DEFAULT_JUDGE, None, LlmUsage(options), concurrency)
        stored = answer_files.read_stored(samples)
        chosen = chosen_judge_protocol(protocol, answer_files.preset_of(stored))
        settings = replace(settings, protocol=chosen.name)
        answers = answer_files.with_questions(stored)
        repeated = grade_repeatedly(answers, settings, repeats)
        finish_estimate(settings.usage)
        judged = repeated[0]
        unjudged = 0
        for repeats_of_answer in zip(*repeated, strict=True):
            unjudged += any(answer.rating is None for answer in repeats_of_answer)
        written = written_path(out, unjudged)
        answer_files.write_judged(written, repeated, [answer.run for answer in stored])
        print_scores(judged)
        if repeats > 1:
            print_noise(repeated)
        print_cost(settings.usage)
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
    from lmms_egoplan.report.egothink.agreement import agreement_csv, compare
    from lmms_egoplan.report.egothink.agreement_tables import (
        print_agreement,
        print_counts,
        print_means,
    )
    from lmms_egoplan.report.egothink.answer_files import read_raters

    paths = judged or []
    human_and_judges = [*paths, human] if human else paths
    with output_file(out, human_and_judges, overwrite=overwrite):
        if len({path.resolve() for path in paths}) < len(paths):
            raise typer.BadParameter("duplicate file; pass each file once")
        raters = read_raters(paths, human)
        if len(raters) < 2:
            raise typer.BadParameter(f"at least two raters are required, got {len(raters)}")
        print_counts(raters)
        means, rows = compare(raters, list(raters)[: len(paths)])
        if out is not None:
            write_whole(out, agreement_csv(rows))
        print_means(means)
        print_agreement(rows)
        if out is not None:
            typer.echo(f"Written to {out}")
