"""EgoPlan's own subcommands of ``lmms-egoplan``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.annotation.options import Annotators, CutFirst, Db, Height, Host, PerItem, Port
from lmms_egoplan.benchmarks.egoplan.tuning import commands as tuning
from lmms_egoplan.judging.asking import Asking, EstimateOnly, Prices, RetryRejected
from lmms_egoplan.next_action.commands import ALSO_LISTED, print_cut, print_needed, print_prepared
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.prepared_counts import SkipMissing, Verify

_LABELS = {"task_goals": "task goals"}

Split = Annotated[Literal["val", "test"], typer.Option(help="The split that the file holds.")]
EpicKitchens = Annotated[
    Path | None, typer.Option(help="Folder with EPIC-KITCHENS' RGB frames: `P01/rgb_frames/` and so on.")
]
Ego4d = Annotated[Path | None, typer.Option(help="Folder with Ego4D's videos, `<video_id>.mp4`.")]
EpicVideoInfo = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="EPIC-KITCHENS-100's published list of videos: check ids, lengths and rates with it.",
    ),
]


def prepare(
    annotations: Annotated[Path, typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file.")],
    split: Split,
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    clips: Annotated[
        Path | None,
        typer.Option(
            help="Folder with a ready-cut clip of each question, `<sample_id>.mp4`, in place of the two sources; "
            "`data cut egoplan` makes such clips."
        ),
    ] = None,
    epic_video_info: EpicVideoInfo = None,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
) -> None:
    """Prepare EgoPlan-Bench from its annotations and the two sources' frames, or from ready-cut clips.

    Example: `lmms-egoplan data prepare egoplan EgoPlan_validation.json --split val --epic-kitchens EPIC-KITCHENS
    --ego4d ego4d/video_288p`

    To find damaged frames and go on without their questions, add `--verify --skip-missing`.

    - Annotations: https://github.com/ChenYi99/EgoPlan
    - EPIC-KITCHENS' RGB frames, such as `P01/rgb_frames/P01_13/frame_0000000760.jpg`: https://epic-kitchens.github.io
    - Ego4D's canonical videos at 288p: https://ego4d-data.org
    """
    from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan

    summary = prepare_egoplan(
        annotations, split, epic_kitchens, ego4d, skip_missing, verify, clips=clips, epic_video_info=epic_video_info
    )
    print_prepared(summary, _LABELS)


@also_writes(*ALSO_LISTED)
def list_videos(
    annotations: Annotated[Path, typer.Option(metavar="FILE", help="EgoPlan's annotation file, of either split.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The list of Ego4D's videos to write.")],
    frames: Annotated[
        bool, typer.Option("--frames", help="Also list the frames that tasks may read, as `*_frames.csv` beside it.")
    ] = False,
) -> None:
    """List the videos that EgoPlan-Bench's questions need, for the publishers' downloaders.

    `FILE` gets Ego4D's video ids, one a line, as its downloader's `--video_uid_file` reads them. EPIC-KITCHENS' video
    ids go beside it, into `*_epic_kitchens.txt`.

    Example: `lmms-egoplan data list egoplan --annotations EgoPlan_validation.json --out ids.txt --frames`
    """
    from lmms_egoplan.benchmarks.egoplan.records import read_annotations
    from lmms_egoplan.next_action.needed_videos import needed_spans

    print_needed(needed_spans(read_annotations(annotations, None)), out, frames)


def cut(
    annotations: Annotated[Path, typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file.")],
    split: Split,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the clips.")],
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    epic_video_info: EpicVideoInfo = None,
    skip_missing: SkipMissing = False,
) -> None:
    """Cut a clip of each question out of the source videos, for `data prepare egoplan --clips`.

    `<sample_id>.mp4` is H.264 and has every frame from the first past action's start to the observation: all that a
    task may read. After a kill, the same command goes on.

    Example: `lmms-egoplan data cut egoplan EgoPlan_validation.json --split val --epic-kitchens EPIC-KITCHENS
    --ego4d ego4d/video_288p --out clips`
    """
    from lmms_egoplan.benchmarks.egoplan.cutting import cut_clips

    clips = cut_clips(annotations, split, epic_kitchens, ego4d, out, skip_missing, epic_video_info)
    print_cut(clips, out)


def build(
    narrations: Annotated[
        Path, typer.Option(metavar="FILE", help="Narrations: EPIC-KITCHENS-100's CSV, or Ego4D's `narration.json`.")
    ],
    source: Annotated[Literal["epic-kitchens", "ego4d"], typer.Option(help="The layout of the narrations.")],
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

    Example: `lmms-egoplan data build egoplan --narrations EPIC_100_validation.csv --source epic-kitchens --out built`

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
    from lmms_egoplan.benchmarks.egoplan.construction.build import EVALUATION, build, write

    kinds = drop.replace(",", " ").split()
    asking = Asking(retry_rejected, estimate, prices)
    built = build(narrations, source, goals, instruction_data, seed, mean_gap, True, kinds, epic_video_info, asking)
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


def submit(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help="Samples of a run: `*_samples_egoplan_test.jsonl`, `*_samples_egoplan_val.jsonl`; or its predictions "
            "file.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The submission to write, JSON.")],
    split: Annotated[
        Literal["val", "test"] | None,
        typer.Option(help="The split. Without it, that in the name of the samples file; test if there is none."),
    ] = None,
) -> None:
    """Write a submission for EgoPlan's leaderboard, which takes a file of each split, val and test.

    The file is a JSON list of sample_id and label, each id of the split exactly once. The split must be prepared, with
    all of its questions. The samples come from `--tasks egoplan_test` or `--tasks egoplan_val` with `--log_samples`.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_val.jsonl
    --out submission_val.json`
    """
    from lmms_egoplan.benchmarks.egoplan import submission
    from lmms_egoplan.benchmarks.egoplan.splits import OFFICIAL

    predictions = submission.read_predictions(samples)
    split = split or submission.split_of(samples)
    ids = submission.split_ids(split)
    labels = submission.build_submission(predictions, ids, split)
    submission.write_submission(out, labels)
    typer.echo(
        f"{len(labels)} labels of the {split} split written to {out}. Scored: {len(labels):,} of {len(ids):,} prepared "
        f"questions, {len(labels):,} of {OFFICIAL[split]:,} official ones."
    )


def annotate(
    items: Annotated[
        Path,
        typer.Option(
            metavar="ANNOTATIONS",
            help="Questions to verify, in the form of EgoPlan_validation.json, such as `data build egoplan` makes.",
        ),
    ],
    db: Db,
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    annotators: Annotators = None,
    per_item: PerItem = None,
    qualification: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Questions that every annotator labels first, until two seniors let them go on; 50 by default, 0 for "
            "none. They are not verified then. It stays as it was at the first start.",
        ),
    ] = None,
    skip_missing: SkipMissing = False,
    cut_first: CutFirst = False,
    height: Height = 480,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people verify EgoPlan's questions, as the paper's annotators did.

    Kept are the questions that all annotators of a question answer alike and as the record does.

    Example: `lmms-egoplan annotate egoplan --items built/EgoPlan_validation.json --db labels.sqlite
    --epic-kitchens EPIC-KITCHENS --annotators 10`
    """
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.benchmarks.egoplan.annotation import FLOW, SENIORS, read_items
    from lmms_egoplan.next_action.records import EGO4D, EPIC_KITCHENS

    store = open_store(
        FLOW,
        db,
        lambda _: read_items(items, {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}, skip_missing),
        str(items),
        annotators,
        per_item,
        qualification if db.exists() or qualification is not None else 50,
        skip_missing,
        seniors=0 if qualification == 0 else SENIORS,
    )
    serve(store, FLOW, host, port, cuts=cut_first, height=height)


COMMANDS = {
    "data prepare egoplan": prepare,
    "data list egoplan": list_videos,
    "data cut egoplan": cut,
    "data build egoplan": build,
    "submit egoplan": submit,
    "annotate egoplan": annotate,
    **tuning.COMMANDS,
}
HELPS = {
    "data list": "`lmms-egoplan data list egoplan --annotations EgoPlan_validation.json --out ids.txt`",
    "data cut": "`lmms-egoplan data cut egoplan EgoPlan_validation.json --split val --epic-kitchens EPIC-KITCHENS "
    "--ego4d ego4d/video_288p --out clips`",
    "data export": "`lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl --epic-kitchens EPIC-KITCHENS "
    "--out trl`",
    "submit": "`lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_test.jsonl "
    "--out submission.json`",
    "tasks-path --tasks": "egoplan_val_blind",
    "report --similarity": "BERT-like model (a name or a folder). Its BERTScore measures how similar EgoPlan's goals "
    "and answers are, as in the paper's Fig. 7. Without it, a sentence encoder does.",
}
