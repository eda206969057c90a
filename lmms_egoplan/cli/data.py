"""``lmms-egoplan data``: prepare the benchmarks' data, and see what is there."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.splits import PREPARED as ACTPLAN
from lmms_egoplan.benchmarks.egointent.splits import PREPARED as EGOINTENT
from lmms_egoplan.benchmarks.egoplan.splits import PREPARED as EGOPLAN
from lmms_egoplan.benchmarks.egothink.splits import PREPARED as EGOTHINK
from lmms_egoplan.cli.former_options import accepting
from lmms_egoplan.cli.summaries import print_dimensions, print_release, print_summary
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import data_root
from lmms_egoplan.storage import load_summary, prepared_splits

_PREPARED = {prepared.benchmark: prepared for prepared in (EGOPLAN, EGOTHINK, EGOINTENT, ACTPLAN)}

app = typer.Typer(
    help="""Prepare the benchmarks' data, and see what is there.

    Example: `lmms-egoplan data prepare egothink hub`, then `lmms-egoplan data status`
    """,
    no_args_is_help=True,
)
prepare = typer.Typer(
    help="""Check a benchmark's files and write them as a dataset.

    The dataset is written below `$LMMS_EGOPLAN_DATA` (by default `~/.cache/lmms_egoplan`).

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`
    """,
    no_args_is_help=True,
)
build = typer.Typer(
    help="""Make annotations of a benchmark's form from other data.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --videos ego4d/full_scale --out steps.jsonl`
    """,
    no_args_is_help=True,
)
app.add_typer(prepare, name="prepare")
app.add_typer(build, name="build")

_SkipMissing = Annotated[
    bool, typer.Option("--skip-missing", help="Leave out what has no undamaged files, instead of stopping.")
]
_Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Also decode every frame that a task may read (minutes to hours). Damaged frames count as missing.",
    ),
]


@prepare.command("egoplan", cls=accepting("--annotations"))
def egoplan(
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
    skip_missing: _SkipMissing = False,
    verify: _Verify = False,
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
    from lmms_egoplan.errors import LmmsEgoplanError

    try:
        summary = prepare_egoplan(annotations, split, epic_kitchens, ego4d, skip_missing, verify)
    except (LmmsEgoplanError, OSError) as error:
        _fail(error)
    print_summary(summary, "questions")


@prepare.command("egothink", cls=accepting("--source"))
def egothink(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="`hub`, or a folder with `Object/existence/annotations.json`, `Object/existence/images/1.jpg` and so "
            "on. Write `./hub` for a folder of that name.",
            show_default=False,
        ),
    ],
) -> None:
    """Prepare EgoThink's twelve dimensions from its questions and images.

    Example: `lmms-egoplan data prepare egothink hub`

    - `hub` is the dataset EgoThink/EgoThink on the Hugging Face hub.
    - The folder is that of a clone of https://github.com/AdaCheng/EgoThink
    """
    from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
    from lmms_egoplan.errors import LmmsEgoplanError

    try:
        summaries = prepare_egothink(source)
    except (LmmsEgoplanError, OSError) as error:
        _fail(error)
    print_dimensions(summaries)


@prepare.command("egointent", cls=accepting("--annotations"))
def egointent(
    annotations: Annotated[
        Path,
        typer.Argument(metavar="ANNOTATIONS", help="The annotated steps, JSON lines.", show_default=False),
    ],
    videos: Annotated[
        Path,
        typer.Option(help="Folder with `<video_id>.mp4`.", show_default=False),
    ],
    skip_missing: _SkipMissing = False,
    verify: _Verify = False,
) -> None:
    """Prepare EgoIntent from its annotated steps and their videos.

    Example: `lmms-egoplan data prepare egointent egointent.jsonl --videos ego4d/full_scale`

    To find damaged frames and go on without their steps, add `--verify --skip-missing`.

    - Annotations: https://github.com/YePan2/EgoIntent
    - Videos: https://ego4d-data.org
    - The file's form is described in `egointent/FORMAT.md` below the folder that `lmms-egoplan tasks-path` prints.
    """
    from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
    from lmms_egoplan.errors import LmmsEgoplanError

    try:
        summary = prepare_egointent(annotations, videos, skip_missing, verify)
    except (LmmsEgoplanError, OSError) as error:
        _fail(error)
    print_summary(summary, "steps")
    if "categories" in summary["counts"]:
        typer.echo("These are Goal-Step steps, not EgoIntent's: scores do not compare with the paper's.")
    if summary["unverified"]:
        typer.echo(f"Steps with labels that nobody has verified: {summary['unverified']}")


@prepare.command("actplan", cls=accepting("--source"))
def actplan(
    source: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with `<scene>/<activity>/<n>/sample_<k>/`.", show_default=False),
    ],
    skip_missing: _SkipMissing = False,
) -> None:
    """Prepare ActPlan-1K from its full release.

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`

    - The folder is called `annotation` in the full release. The release is linked on
      https://github.com/HKUST-KnowComp/ActPlan-1K
    """
    from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
    from lmms_egoplan.errors import LmmsEgoplanError

    try:
        summary = prepare_actplan(source, skip_missing)
    except (LmmsEgoplanError, OSError) as error:
        _fail(error)
    print_release(summary)


@build.command("egointent", cls=accepting("--goalstep"))
def build_egointent(
    goalstep: Annotated[
        Path,
        typer.Argument(metavar="GOALSTEP", help="Ego4D Goal-Step's annotation file.", show_default=False),
    ],
    videos: Annotated[
        Path,
        typer.Option(
            help="Folder with `<video_uid>.mp4`; steps of videos that are not there are left out.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="The file to write, JSON lines, for `data prepare egointent`.", show_default=False)
    ],
    before_end: Annotated[float, typer.Option(help="Seconds before the end of a step at which it is cut.")] = 0.5,
) -> None:
    """Make Goal-Step steps: records of EgoIntent's form from Ego4D Goal-Step, whose labels nobody has verified.

    They are not EgoIntent's steps, and their scores do not compare with the paper's.

    Example: `lmms-egoplan data build egointent goalstep_valid_public.json --videos ego4d/full_scale --out steps.jsonl`

    A video id that begins with `grp-` is that of a grouped video: several Ego4D videos joined end to end. Ego4D's
    downloader brings all videos and the annotation file: `ego4d --datasets full_scale annotations --benchmarks goalstep
    -o DIR`

    - Goal-Step: https://github.com/facebookresearch/ego4d-goalstep
    """
    from lmms_egoplan.benchmarks.egointent.goalstep import absence, build_records, write_records
    from lmms_egoplan.errors import LmmsEgoplanError

    try:
        built = build_records(goalstep, videos, before_end)
        write_records(built.records, out)
    except (LmmsEgoplanError, OSError) as error:
        _fail(error)
    reasons = "; ".join(f"{count}: {reason}" for reason, count in built.left_out.most_common())
    typer.echo(
        f"{len(built.records)} Goal-Step steps of {len({record.video_id for record in built.records})} videos, all "
        f"unverified, written to {out}\nLeft out: {reasons or 'none'}"
    )
    if built.absent:
        typer.echo(f"Videos {absence(built.absent, built.videos)}")


@app.command()
def status() -> None:
    """Show which splits are prepared, and how complete they are.

    Counts are questions, steps or instances. "Of file" is what the prepared file or folder holds, "official" what the
    benchmark has in its paper.

    Example: `lmms-egoplan data status`
    """
    columns = [Column(title, no_wrap=True, overflow="fold") for title in ("benchmark", "split")]
    numbers_of = [Column(title, justify="right") for title in ("prepared", "of file", "missing", "official")]
    table = Table(
        *columns,
        *numbers_of,
        Column("time (UTC)", no_wrap=True, overflow="fold"),
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    remarks, unreadable = [], []
    try:
        for benchmark, split in prepared_splits():
            summary = load_summary(benchmark, split)
            if summary is None:
                continue
            prepared, size = summary["questions"], summary["split_size"]
            official = _PREPARED[benchmark].official.get(split, "n/a") if benchmark in _PREPARED else "n/a"
            counts = summary.get("counts")
            if isinstance(counts, dict) and "categories" in counts:
                official = "n/a"
                remarks.append(f"{benchmark}/{split}: Goal-Step steps, not EgoIntent's.")
            numbers = (prepared, size, size - prepared, official)
            table.add_row(benchmark, split, *map(str, numbers), _utc(summary["prepared"]))
            try:
                if benchmark in _PREPARED:
                    _PREPARED[benchmark].check(split, summary)
            except LmmsEgoplanError as error:
                unreadable.append(str(error))
    except LmmsEgoplanError as error:
        _fail(error)
    if table.row_count:
        typer.echo(f"Prepared in {data_root()} (LMMS_EGOPLAN_DATA sets the folder), each split in <benchmark>/<split>:")
        Console().print(table)
        for remark in remarks:
            typer.echo(remark)
    else:
        typer.echo(
            f"Nothing is prepared in {data_root()} (LMMS_EGOPLAN_DATA sets the folder).\n"
            "Prepare a benchmark: lmms-egoplan data prepare egoplan --help\n"
            "                 or: lmms-egoplan data prepare egothink --help\n"
            "                 or: lmms-egoplan data prepare egointent --help\n"
            "                 or: lmms-egoplan data prepare actplan --help"
        )
    if unreadable:
        _fail(LmmsEgoplanError("\n".join(unreadable)))


def _utc(text: str) -> str:
    """A time of a summary to the minute; as it stands where it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{time.astimezone(timezone.utc) if time.tzinfo else time:%Y-%m-%d %H:%M}"


def _fail(error: Exception) -> None:
    typer.echo(f"lmms-egoplan: {error}", err=True)
    raise typer.Exit(1)
