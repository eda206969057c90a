"""``lmms-egoplan data build``: build annotations in a benchmark's format from other data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lmms_egoplan.judging.options import (
    Batch,
    EstimateOnly,
    Llm,
    MaxCost,
    MaxRequests,
    Prices,
    Retry,
)
from lmms_egoplan.options import EpicVideoInfo, OutFile, OutFolder, Overwrite
from lmms_egoplan.outputs import output_file, output_folder

if TYPE_CHECKING:
    from lmms_egoplan.judging.usage import LlmUsage

build = typer.Typer(
    help="""
    Build annotations in a benchmark's format from other data.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --videos
    ego4d/full_scale --out steps.jsonl`
    """,
    no_args_is_help=True,
)


def _llm_usage(
    *,
    retry_rejected: bool,
    estimate: bool,
    batch: bool,
    prices: Path | None,
    max_requests: int | None,
    max_cost: float | None,
) -> "LlmUsage":
    """Return the options of a command that asks a language model, with counts from 0."""
    from lmms_egoplan.judging.prices import read_prices
    from lmms_egoplan.judging.usage import LlmOptions, LlmUsage

    options = LlmOptions(
        retry_rejected=retry_rejected,
        is_estimate=estimate,
        prices=read_prices(prices, batch=batch),
        batch=batch,
        # The lines of a batch cannot be repeated in another form if the model refuses the first.
        probes=batch,
        max_requests=max_requests,
        max_cost=max_cost,
    )
    return LlmUsage(options)


@build.command("egoplan")
def build_egoplan(
    narrations: Annotated[
        Path,
        typer.Argument(
            metavar="NARRATIONS",
            help="Narrations: EPIC-KITCHENS-100's CSV, or Ego4D's `narration.json`.",
        ),
    ],
    source: Annotated[
        Literal["epic-kitchens", "ego4d"], typer.Option(help="Layout of the narrations.")
    ],
    out: OutFolder,
    goals: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "JSON file with task goals: for each video id, an object in the format of the "
                "paper's prompt. Without it, a language model identifies the goals."
            ),
        ),
    ] = None,
    instruction_data: Annotated[
        bool,
        typer.Option(
            "--instruction-data", help="Also write EgoPlan-IT and action-recognition samples."
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Random seed for wrong choices and the order of choices.")
    ] = 0,
    mean_gap: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=10_000,
            help=(
                "Ego4D: mean gap between narrations over all videos, in seconds. It sets the "
                "segment lengths. Over all of Ego4D it is 4.9. Default: computed from the file."
            ),
        ),
    ] = None,
    drop: Annotated[
        str,
        typer.Option(
            metavar="KIND,KIND",
            help="Kinds to drop, from the five above. By default, none is dropped.",
        ),
    ] = "",
    balance: Annotated[
        bool,
        typer.Option(
            "--balance",
            help=(
                "Use only wrong choices that have not been done yet. Otherwise, a guess among the "
                "choices that have not been done is right about half the time, without the video. "
                "Questions without three such choices are excluded, such as the last three of "
                "each goal. Not the paper's method, which uses any other action of the goal."
            ),
        ),
    ] = False,
    epic_video_info: EpicVideoInfo = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    batch: Batch = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
) -> None:
    """Build EgoPlan questions from narrated videos with the paper's method. They are not verified
    by people.

    A language model identifies the task goals (paper, Fig. 10). Set it like a judge:
    LMMS_EGOPLAN_JUDGE_BASE_URL, LMMS_EGOPLAN_JUDGE_API_KEY and LMMS_EGOPLAN_JUDGE_MODEL (default
    gpt-4o-2024-11-20). Replies are cached: to resume an interrupted run, repeat the command; you
    pay for no reply twice. If more than 10 % of the prompts have no usable reply, the output is
    written and the exit code is 1.

    Example: `lmms-egoplan data build egoplan EPIC_100_validation.csv --source epic-kitchens --out
    built`

    The output folder contains:

    - `EgoPlan_validation.json` for `data prepare egoplan`
    - `goals.json` and `narrations.csv`
    - the statistics of the paper's Table 2 and Figures 4 and 5
    - `rejections.jsonl`: one line for everything that was rejected
    - `summary.json`: counts, and the accuracies of baselines that see no video

    The summary counts five kinds, which you can drop with `--drop`:

    - `near-equal`: choices that differ only in inflection, determiners or the order of words
    - `concurrent`: wrong choices that begin within 0.5 s of the answer
    - `copies`: questions with the view and answer of another goal's question; the first is kept
    - `listing-goals`: goals that name at least three of their actions, and at least half, in their
      order
    - `unsure-actions`: Ego4D's `#unsure` actions; if they are not dropped, the goals around them
      are rejected

    Sources:

    - EPIC-KITCHENS-100's narrations: https://github.com/epic-kitchens/epic-kitchens-100-annotations
    - Ego4D's narrations: https://ego4d-data.org
    """
    from lmms_egoplan.construction.egoplan.build import (
        FILES,
        Narrations,
        build,
        summary_lines,
        write,
    )
    from lmms_egoplan.judging.printing import finish

    with output_folder(out, "data build egoplan", FILES):
        usage = _llm_usage(
            retry_rejected=retry_rejected,
            estimate=estimate,
            batch=batch,
            prices=prices,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        built = build(
            Narrations(narrations, source, mean_gap, epic_video_info),
            goals,
            instruction_data=instruction_data,
            seed=seed,
            drop=drop.replace(",", " ").split(),
            is_balanced=balance,
            usage=usage,
        )
        write(built, out)
        for line in summary_lines(built, out):
            typer.echo(line)
        finish(usage)


@build.command("egointent")
def build_egointent(
    goalstep: Annotated[
        Path, typer.Argument(metavar="GOALSTEP", help="Ego4D Goal-Step's annotation file.")
    ],
    videos: Annotated[
        Path,
        typer.Option(help="Folder with `<video_uid>.mp4`. Steps of missing videos are skipped."),
    ],
    out: OutFile,
    narrations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Ego4D's `narration.json`. Builds steps at the times of narrations, as the "
                "paper does."
            ),
        ),
    ] = None,
    llm: Llm = None,
    before_end: Annotated[
        float | None,
        typer.Option(
            help=(
                "Cut each step this many seconds before its end. Default 0.5. Not with "
                "--narrations."
            )
        ),
    ] = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    batch: Batch = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
    overwrite: Overwrite = False,
) -> None:
    """Build steps in EgoIntent's format from Ego4D. Their labels are unverified.

    With --narrations, steps end at the time of a narration, as in the paper. A language model
    proposes the procedural intent and the next step, and people revise them with `annotate
    egointent`. Set the language model like a judge (LMMS_EGOPLAN_JUDGE_BASE_URL,
    LMMS_EGOPLAN_JUDGE_API_KEY). Replies are stored: to resume an interrupted run, repeat the
    command; no reply is paid for twice. If more than 10 % of the prompts have no usable reply, the
    output is written and the exit code is 1.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --narrations
    narration.json --videos ego4d/full_scale --llm gpt-4o-2024-11-20 --out steps.jsonl`

    Without --narrations, the command builds Goal-Step steps with Goal-Step's own texts. They are
    not EgoIntent's steps, and their scores are not comparable with the paper's.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --videos ego4d/full_scale
    --out steps.jsonl`

    A video id that starts with `grp-` names a grouped video: several Ego4D videos joined end to
    end. Ego4D's downloader gets all videos and the annotation file: `ego4d --datasets full_scale
    annotations --benchmarks goalstep -o DIR`

    - Goal-Step: https://github.com/facebookresearch/ego4d-goalstep
    """
    from lmms_egoplan.construction.egointent import build as from_narrations
    from lmms_egoplan.construction.egointent import goalstep as from_goalstep
    from lmms_egoplan.judging.printing import finish

    inputs = [goalstep] if narrations is None else [goalstep, narrations]
    also = [from_narrations.rejections_path(out)]
    with output_file(out, inputs, overwrite=overwrite, also=also):
        usage = _llm_usage(
            retry_rejected=retry_rejected,
            estimate=estimate,
            batch=batch,
            prices=prices,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        if narrations is None:
            if llm is not None or retry_rejected or estimate or batch:
                raise typer.BadParameter(
                    "only with --narrations",
                    param_hint="--llm, --retry-rejected, --estimate, --batch",
                )
            built = from_goalstep.build_records(
                goalstep, videos, 0.5 if before_end is None else before_end
            )
            from_goalstep.write_records(built.records, built.outcomes, out)
            for line in from_goalstep.summary_lines(built, out):
                typer.echo(line)
            return
        if before_end is not None:
            raise typer.BadParameter(
                "not with --narrations: these steps end at the time of a narration",
                param_hint="--before-end",
            )
        steps, rejections = from_narrations.build(narrations, goalstep, videos, llm, usage)
        from_narrations.write(steps, rejections, out)
        for line in from_narrations.summary_lines(steps, rejections, out, videos):
            typer.echo(line)
        finish(usage)


@build.command("actplan")
def build_actplan(
    bddl: Annotated[
        Path,
        typer.Argument(
            metavar="BDDL",
            help=(
                "Folder of activities: `<activity>/problem0.bddl`, as in ActPlan-1K's "
                "`bddl/activity_definitions`."
            ),
        ),
    ],
    out: OutFolder,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Tours: videos `sample_<k>.mp4` or folders of images `sample_<k>/`, in "
                "`<scene>/<activity>/<n>/`. Without tours, only descriptions and circumstances "
                "are built."
            ),
        ),
    ] = None,
    llm: Llm = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Activities with a `task_description_<n>.txt` next to each problem, used as "
                "examples for the model (default: BDDL)."
            ),
        ),
    ] = None,
    circumstances: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Chosen circumstances, from `annotate export`."),
    ] = None,
    views: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Views chosen by hand: CSV with the columns id and view, one row per view "
                "(seconds in the video, or the image's name), or a JSON object of lists. The "
                "model chooses the views of all other tours."
            ),
        ),
    ] = None,
    plans: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Gold plans, from `annotate export`.")
    ] = None,
    check_released: Annotated[
        bool,
        typer.Option(
            "--check-released",
            help=(
                "Build nothing. Measure the model's advice on the descriptions in --examples or "
                "BDDL, such as the release's 153, and print precision and recall."
            ),
        ),
    ] = False,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    batch: Batch = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
) -> None:
    """Build instances in ActPlan-1K's format from BDDL activities and tours of rooms, following the
    paper.

    A language model describes the activities, proposes what might happen during them, and lists
    what the views show. It must read images; set it like a judge (LMMS_EGOPLAN_JUDGE_BASE_URL,
    LMMS_EGOPLAN_JUDGE_API_KEY). People choose the circumstances and write the gold plans.

    Each run does everything that is possible with their answers so far, and prints the next
    command. To resume an interrupted run, repeat the command: replies and views are cached, so no
    reply is paid for twice. If more than 10 % of the prompts have no usable reply, the exit code is
    1; the output is still written.

    Example: `lmms-egoplan data build actplan bddl/activity_definitions --images tours --llm
    gpt-4o-2024-11-20 --out built`

    Finally, prepare the instances with `data prepare actplan built/annotation`. `rejections.jsonl`
    lists everything that was skipped, one line each.

    A description that does not name every object is refused. The model also reports which goal
    conditions each description lacks or contradicts. This is advice in `advice.jsonl`, whose
    accuracy was not measured. To measure it for a model, use --check-released:

    - It plants errors. Each description is checked twice: once a condition is added that it does
      not state, and once a condition is replaced by its negation.
    - Precision is the fraction of the reported conditions that are planted. Recall is the fraction
      of the planted conditions that are reported.
    - All other conditions count as stated. Some released descriptions lack conditions, so precision
      is a lower bound.

    Example: `lmms-egoplan data build actplan bddl/activity_definitions --check-released --llm
    gpt-4o-2024-11-20 --out checked`
    """
    from lmms_egoplan.construction.actplan.build import FILES, build_instances, summary_lines
    from lmms_egoplan.judging.printing import finish
    from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model

    usage = _llm_usage(
        retry_rejected=retry_rejected,
        estimate=estimate,
        batch=batch,
        prices=prices,
        max_requests=max_requests,
        max_cost=max_cost,
    )
    if check_released:
        if images or circumstances or views or plans:
            raise typer.BadParameter(
                "not with --images, --circumstances, --views or --plans",
                param_hint="--check-released",
            )
        _check_released(examples or bddl, out, llm, usage)
        return
    with output_folder(out, "data build actplan", FILES):
        settings = language_model(DEFAULT_MODEL, llm, usage)
        built = build_instances(bddl, out, settings, images, examples, circumstances, views, plans)
        lines = summary_lines(
            built,
            out,
            are_circumstances_chosen=circumstances is not None,
            are_tours_given=images is not None,
            are_plans_written=plans is not None,
        )
        for line in lines:
            typer.echo(line)
        finish(usage)


def _check_released(descriptions: Path, out: Path, llm: str | None, usage: "LlmUsage") -> None:
    """Measure a language model's advice on the descriptions in a folder."""
    from lmms_egoplan.construction.actplan.activities import read_examples
    from lmms_egoplan.construction.actplan.released_check import (
        CHECKED,
        check_released,
        summary_lines,
    )
    from lmms_egoplan.judging.printing import finish
    from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model

    with output_folder(out, "data build actplan --check-released", [CHECKED]):
        settings = language_model(DEFAULT_MODEL, llm, usage)
        accuracies, rejections = check_released(read_examples(descriptions), out, settings)
        for line in summary_lines(accuracies, rejections, out):
            typer.echo(line)
        finish(usage)


@build.command("egothink")
def build_egothink(
    videos: Annotated[
        Path,
        typer.Argument(
            metavar="VIDEOS", help="Folder of videos, of folders of images, or of images."
        ),
    ],
    out: OutFolder,
    every: Annotated[
        int,
        typer.Option(
            min=1,
            help=(
                "Sample a frame every so many frames. For folders of images that are not "
                "consecutive frames, use 1."
            ),
        ),
    ] = 30,
    min_sharpness: Annotated[
        float,
        typer.Option(
            min=0,
            help=(
                "Lowest sharpness of a frame: the variance of the Laplacian, at 512 pixels. "
                "98 % of EgoThink's images are above the default."
            ),
        ),
    ] = 50.0,
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="LABELS",
            help=(
                "People's questions, from `annotate export`. Writes the benchmark, with the "
                "frames that are in the output folder; VIDEOS is not read."
            ),
        ),
    ] = None,
) -> None:
    """Build questions in EgoThink's format from first-person videos, following the paper.

    First, the command samples frames, and keeps at most two clear ones of each video that are not
    alike. People then write and review questions with `annotate egothink-questions`. With their
    export, the command writes the benchmark in the layout of the release, and its statistics (Table
    4, Fig. 3).

    To resume an interrupted run, repeat the command.

    Example: `lmms-egoplan data build egothink ego4d/full_scale --out built`

    Example: `lmms-egoplan data build egothink ego4d/full_scale --out built --questions labels`
    """
    from lmms_egoplan.construction.egothink import frames, layout
    from lmms_egoplan.prepared_counts import print_dimensions

    if questions is None:
        with output_folder(out, "data build egothink", [frames.FRAMES, frames.REJECTIONS]):
            chosen = frames.build_frames(videos, out, every, min_sharpness)
            for line in frames.summary_lines(chosen, out):
                typer.echo(line)
        return
    with output_folder(out, "data build egothink", [layout.STATISTICS]):
        result = layout.build_benchmark(questions, out)
        print_dimensions(result["dimensions"])
        for line in layout.summary_lines(result, out):
            typer.echo(line)
