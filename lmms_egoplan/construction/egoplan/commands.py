"""Define ``lmms-egoplan data build egoplan``."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.construction.egoplan.build import EVALUATION, FILES, Narrations, Source, write
from lmms_egoplan.construction.egoplan.build import build as build_questions
from lmms_egoplan.judging.asking import EstimateOnly, LlmUsage, MaxCost, MaxRequests, Prices, Retry
from lmms_egoplan.options import EpicVideoInfo, OutFolder
from lmms_egoplan.outputs import output_folder


def build(
    narrations: Annotated[
        Path,
        typer.Argument(
            metavar="NARRATIONS",
            help="Narrations: EPIC-KITCHENS-100's CSV, or Ego4D's `narration.json`.",
        ),
    ],
    source: Annotated[Source, typer.Option(help="Layout of the narrations.")],
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
    epic_video_info: EpicVideoInfo = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
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
    - `summary.json`: counts, and the accuracy of three baselines that see no video

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
    with output_folder(out, "data build egoplan", FILES):
        asking = LlmUsage(
            retry_rejected, estimate, prices, max_requests=max_requests, max_cost=max_cost
        )
        file = Narrations(narrations, source, mean_gap, epic_video_info)
        kinds = drop.replace(",", " ").split()
        built = build_questions(
            file, goals, instruction_data=instruction_data, seed=seed, drop=kinds, asking=asking
        )
        write(built, out)
        for name in ("left_out", "kinds_to_drop", "accuracy_without_video"):
            values = "; ".join(f"{key}: {value}" for key, value in built.summary[name].items())
            typer.echo(f"{name.replace('_', ' ').capitalize()}: {values or 'nothing'}")
        typer.echo(f"Details: summary.json and rejections.jsonl in {out}")
        typer.echo(
            f"{len(built.questions)} questions (not verified by people) on "
            f"{built.summary['task_goals']} task goals in {built.summary['videos']} videos written "
            f"to {out / EVALUATION}"
        )
        asking.finish()
