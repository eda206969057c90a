"""EgoPlan's own subcommands of ``lmms-egoplan``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.prepared_counts import SkipMissing, Verify, print_summary

_LABELS = {"task_goals": "task goals"}


def prepare(
    annotations: Annotated[
        Path,
        typer.Argument(metavar="ANNOTATIONS", help="EgoPlan's annotation file.", show_default=False),
    ],
    split: Annotated[Literal["val", "test"], typer.Option(help="The split that the file holds.")],
    epic_kitchens: Annotated[
        Path | None,
        typer.Option(help="Folder with EPIC-KITCHENS' RGB frames: `P01/rgb_frames/` and so on.", show_default=False),
    ] = None,
    ego4d: Annotated[
        Path | None,
        typer.Option(help="Folder with Ego4D's videos, `<video_id>.mp4`.", show_default=False),
    ] = None,
    skip_missing: SkipMissing = False,
    verify: Verify = False,
) -> None:
    """Prepare EgoPlan-Bench from its annotations and the two sources' frames.

    Example: `lmms-egoplan data prepare egoplan EgoPlan_validation.json --split val --epic-kitchens EPIC-KITCHENS
    --ego4d ego4d/video_288p`

    To find damaged frames and go on without their questions, add `--verify --skip-missing`.

    - Annotations: https://github.com/ChenYi99/EgoPlan
    - EPIC-KITCHENS' RGB frames, such as `P01/rgb_frames/P01_13/frame_0000000760.jpg`: https://epic-kitchens.github.io
    - Ego4D's canonical videos at 288p: https://ego4d-data.org
    """
    from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan

    summary = prepare_egoplan(annotations, split, epic_kitchens, ego4d, skip_missing, verify)
    print_summary(summary, "questions", _LABELS)


def submit(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help="Samples of a run: `*_samples_egoplan_test.jsonl`, `*_samples_egoplan_val.jsonl`; or its predictions "
            "file.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The submission to write, JSON.", show_default=False)],
    split: Annotated[
        Literal["val", "test"] | None,
        typer.Option(
            help="The split. Without it, that in the name of the samples file; test if there is none.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a submission for EgoPlan's leaderboard, which takes a file of each split, val and test.

    The file is a JSON list of sample_id and label, each id of the split exactly once. The split must be prepared, with
    all of its questions. The samples come from `--tasks egoplan_test` or `--tasks egoplan_val` with `--log_samples`.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_val.jsonl
    --out submission_val.json`
    """
    from lmms_egoplan.benchmarks.egoplan import submission

    predictions = submission.read_predictions(samples)
    split = split or submission.split_of(samples)
    labels = submission.build_submission(predictions, submission.split_ids(split), split)
    submission.write_submission(out, labels)
    typer.echo(f"{len(labels)} labels of the {split} split written to {out}")


COMMANDS = {"data prepare egoplan": prepare, "submit egoplan": submit}
FORMER_OPTIONS = {"data prepare egoplan": ("--annotations",), "submit egoplan": ("--samples",)}
HELPS = {
    "submit": "`lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_test.jsonl "
    "--out submission.json`",
    "tasks-path --tasks": "egoplan_val_blind",
    "report --similarity": "BERT-like model (a name or a folder). Its BERTScore measures how similar EgoPlan's goals "
    "and answers are, as in the paper's Fig. 7. Without it, a sentence encoder does.",
}
