"""Arguments and options that commands of several rooms have.

Commands import this module for their signatures, so it imports only typer.
"""

from pathlib import Path
from typing import Annotated

import typer

FOLDER_HELP = (
    "Output folder: new, empty, or from an earlier run of this command. Other files in it are "
    "never replaced or deleted."
)
_FOLDER = typer.Option("--out", metavar="DIR", help=FOLDER_HELP)
_FILE = typer.Option(
    "--out", metavar="FILE", help="Output file. An existing one is replaced only with --overwrite."
)
OutFolder = Annotated[Path, _FOLDER]
OptionalOutFolder = Annotated[Path | None, _FOLDER]
OutFile = Annotated[Path, _FILE]
OptionalOutFile = Annotated[Path | None, _FILE]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace output files that already exist.")
]
Instances = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help=(
            "The release's folder `annotation` with tasks and images (default: the prepared data)."
        ),
    ),
]
LabelledPlans = Annotated[
    Path,
    typer.Argument(
        metavar="PLANS",
        help=(
            "Plans with human labels: finetuning_data.jsonl in bleu-cls/data of ActPlan-1K's "
            "repository."
        ),
    ),
]
Splits = Annotated[
    Path,
    typer.Argument(
        metavar="ACTIVITIES",
        help="Splits of the activities: activities.txt, in the same folder as PLANS.",
    ),
]
EpicKitchens = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Folder with EPIC-KITCHENS' RGB frames, such as `P01/rgb_frames/`, or "
            "EPIC-KITCHENS-55's `frames_rgb_flow`."
        )
    ),
]
Ego4d = Annotated[Path | None, typer.Option(help="Folder with Ego4D's videos, `<video_id>.mp4`.")]
EpicVideoInfo = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=(
            "EPIC-KITCHENS-100's list of videos, `EPIC_100_video_info` (CSV), to check IDs, "
            "lengths and frame rates."
        ),
    ),
]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUNS", help="Folders with runs, with `--log_samples`.")
]
Sample = Annotated[
    int | None,
    typer.Option(min=1, help="Size of a random sample of each task's wrong answers. Default: all."),
]
SkipMissing = Annotated[
    bool,
    typer.Option(
        "--skip-missing", help="Skip items with missing or damaged files instead of failing."
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help=(
            "Decode every frame that a task may read (minutes to hours). Damaged frames "
            "count as missing."
        ),
    ),
]
Figures = Annotated[
    bool, typer.Option("--figures", help="Also draw the paper's figures of the data.")
]
