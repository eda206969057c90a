"""``lmms-egoplan data build egoplan``."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.benchmarks.egoplan.commands import EpicVideoInfo
from lmms_egoplan.construction.egoplan.build import EVALUATION, Narrations, Source, write
from lmms_egoplan.construction.egoplan.build import build as build_questions
from lmms_egoplan.judging.asking import Asking, EstimateOnly, Prices, RetryRejected


def build(
    narrations: Annotated[
        Path,
        typer.Argument(metavar="NARRATIONS", help="Narrations: EPIC-KITCHENS-100's CSV, or Ego4D's `narration.json`."),
    ],
    source: Annotated[Source, typer.Option(help="The layout of the narrations.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for what is made.")],
    goals: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Task goals made elsewhere, JSON: by video id, an object of the form that the paper's prompt asks "
            "for. Without it, a language model is asked.",
        ),
    ] = None,
    instruction_data: Annotated[
        bool,
        typer.Option("--instruction-data", help="Also write EgoPlan-IT's layout, and action recognition on its clips."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the wrong choices, and of the order of choices.")] = 0,
    mean_gap: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=10_000,
            help="Ego4D: mean seconds from one narration to the next over all videos, from which segments get their "
            "lengths. Without it, that of the file. Over all of Ego4D it is 4.9.",
        ),
    ] = None,
    drop: Annotated[
        str, typer.Option(metavar="KIND,KIND", help="Kinds to drop, of the five above. By default, all are kept.")
    ] = "",
    epic_video_info: EpicVideoInfo = None,
    retry_rejected: RetryRejected = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
) -> None:
    """Make questions of EgoPlan's form from narrated videos, as the paper makes them; nobody has verified them.

    A language model finds the task goals (paper, Fig. 10). It is set as a judge is set: LMMS_EGOPLAN_JUDGE_BASE_URL,
    LMMS_EGOPLAN_JUDGE_API_KEY and LMMS_EGOPLAN_JUDGE_MODEL, by default gpt-4o-2024-11-20. Its replies are kept: after
    a kill, the same command goes on, and pays for no reply twice. If more than 10 % of the prompts have no usable
    reply, the exit code is 1; the output is written anyway.

    Example: `lmms-egoplan data build egoplan EPIC_100_validation.csv --source epic-kitchens --out built`

    The folder then has `EgoPlan_validation.json` for `data prepare egoplan`, `goals.json`, `narrations.csv`, the
    statistics of the paper's Table 2 and Figures 4 and 5, `rejections.jsonl` with a line for all that was left out, and
    `summary.json`. The summary has the accuracy of three baselines that see no video. It also counts five kinds, which
    `--drop` drops:

    - `near-equal`: choices that differ only in inflection, determiners or the order of words
    - `concurrent`: wrong choices that begin within 0.5 s of the answer
    - `copies`: questions with the view and answer of another goal's question; the first is kept
    - `listing-goals`: goals that name at least three of their actions, and at least half, in their order
    - `unsure-actions`: Ego4D's `#unsure` actions; by default, the goals around them are left out

    Sources:

    - Narrations of EPIC-KITCHENS-100: https://github.com/epic-kitchens/epic-kitchens-100-annotations
    - Ego4D's: https://ego4d-data.org
    """
    asking = Asking(retry_rejected, estimate, prices)
    file, kinds = Narrations(narrations, source, mean_gap, epic_video_info), drop.replace(",", " ").split()
    built = build_questions(file, goals, instruction_data=instruction_data, seed=seed, drop=kinds, asking=asking)
    write(built, out)
    for name in ("left_out", "kinds_to_drop", "accuracy_without_video"):
        values = "; ".join(f"{key}: {value}" for key, value in built.summary[name].items())
        typer.echo(f"{name.replace('_', ' ').capitalize()}: {values or 'nothing'}")
    typer.echo(f"Details: summary.json and rejections.jsonl in {out}")
    typer.echo(
        f"{len(built.questions)} questions, which nobody has verified, of {built.summary['task_goals']} task goals in "
        f"{built.summary['videos']} videos, written to {out / EVALUATION}"
    )
    asking.check_losses()
