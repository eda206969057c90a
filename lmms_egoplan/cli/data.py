"""``lmms-egoplan data``: prepare the benchmarks' data, and see what is there."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.actplan.prepared import PREPARED as ACTPLAN
from lmms_egoplan.benchmarks.actplan.records import REPOSITORY_URL as ACTPLAN_URL
from lmms_egoplan.benchmarks.egointent.prepared import PREPARED as EGOINTENT
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_URL
from lmms_egoplan.benchmarks.egoplan.prepared import PREPARED as EGOPLAN
from lmms_egoplan.benchmarks.egoplan.records import ANNOTATIONS_URL, EGO4D, EPIC_KITCHENS, VIDEO_URLS
from lmms_egoplan.benchmarks.egothink.prepared import PREPARED as EGOTHINK
from lmms_egoplan.benchmarks.egothink.records import HUB_DATASET, REPOSITORY_URL
from lmms_egoplan.cli.summaries import print_dimensions, print_release, print_summary
from lmms_egoplan.paths import data_root
from lmms_egoplan.storage import StorageError, load_summary, prepared_splits, split_dir

_PREPARED = {prepared.benchmark: prepared for prepared in (EGOPLAN, EGOTHINK, EGOINTENT, ACTPLAN)}

app = typer.Typer(help="Prepare the benchmarks' data, and see what is there.", no_args_is_help=True)
prepare = typer.Typer(help="Check a benchmark's files and write them as a dataset.", no_args_is_help=True)
build = typer.Typer(help="Make a benchmark's annotations out of others.", no_args_is_help=True)
app.add_typer(prepare, name="prepare")
app.add_typer(build, name="build")


@prepare.command("egoplan")
def egoplan(
    annotations: Annotated[Path, typer.Option(help=f"EgoPlan's annotation file, from {ANNOTATIONS_URL}.")],
    split: Annotated[Literal["val", "test"], typer.Option(help="The split that the file holds.")],
    epic_kitchens: Annotated[
        Path | None,
        typer.Option(
            help="Folder with P01/rgb_frames/P01_13/frame_0000000760.jpg and so on; RGB frames from "
            f"{VIDEO_URLS[EPIC_KITCHENS]}."
        ),
    ] = None,
    ego4d: Annotated[
        Path | None,
        typer.Option(help=f"Folder with <video_id>.mp4; canonical videos at 288p from {VIDEO_URLS[EGO4D]}."),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out questions whose frames are not there or damaged.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Also decode every frame that a task may read (minutes to hours); damaged ones count as missing.",
        ),
    ] = False,
) -> None:
    """Prepare EgoPlan-Bench from its annotations and the two sources' frames.

    Example: `lmms-egoplan data prepare egoplan --annotations EgoPlan_validation.json --split val
    --epic-kitchens EPIC-KITCHENS --ego4d ego4d/video_288p`

    Look for damaged frames, and go on without their questions: the same with `--verify --skip-missing`
    """
    from lmms_egoplan.benchmarks.egoplan.prepare import PrepareError, prepare_egoplan
    from lmms_egoplan.benchmarks.egoplan.records import AnnotationError

    try:
        summary = prepare_egoplan(annotations, split, epic_kitchens, ego4d, skip_missing, verify)
    except (AnnotationError, PrepareError, StorageError, OSError) as error:
        _fail(error)
    print_summary(summary, "questions")


@prepare.command("egothink")
def egothink(
    source: Annotated[
        str,
        typer.Option(
            help=f"hub: the dataset {HUB_DATASET}. Else a folder with Object/existence/annotations.json, "
            f"Object/existence/images/1.jpg and so on, as in {REPOSITORY_URL}; write ./hub for a folder of that name."
        ),
    ],
) -> None:
    """Prepare EgoThink's twelve dimensions from its questions and images.

    Example: `lmms-egoplan data prepare egothink --source hub`
    """
    from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
    from lmms_egoplan.benchmarks.egothink.records import SourceError

    try:
        summaries = prepare_egothink(source)
    except (SourceError, StorageError, OSError) as error:
        _fail(error)
    print_dimensions(summaries)


@prepare.command("egointent")
def egointent(
    annotations: Annotated[
        Path, typer.Option(help="The annotated steps; egointent/FORMAT.md in `lmms-egoplan tasks-path` describes them.")
    ],
    videos: Annotated[Path, typer.Option(help="Folder with <video_id>.mp4.")],
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out steps that no video shows undamaged.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Also decode every frame that a task may read (minutes to hours); damaged ones count as missing.",
        ),
    ] = False,
) -> None:
    """Prepare EgoIntent from its annotated steps and their videos.

    Example: `lmms-egoplan data prepare egointent --annotations egointent.jsonl --videos ego4d/full_scale`

    Look for damaged frames, and go on without their steps: the same with `--verify --skip-missing`
    """
    from lmms_egoplan.benchmarks.egointent.prepare import PrepareError, prepare_egointent
    from lmms_egoplan.benchmarks.egointent.records import AnnotationError

    try:
        summary = prepare_egointent(annotations, videos, skip_missing, verify)
    except (AnnotationError, PrepareError, StorageError, OSError) as error:
        _fail(error)
    print_summary(summary, "steps")
    if "categories" in summary["counts"]:
        typer.echo("These are Goal-Step steps, not EgoIntent's: scores do not compare with the paper's.")
    if summary["unverified"]:
        typer.echo(f"Labels that nobody has verified: those of {summary['unverified']} steps")


@prepare.command("actplan")
def actplan(
    source: Annotated[
        Path,
        typer.Option(
            help="Folder with <scene>/<activity>/<n>/sample_<k>/: the folder annotation of the full release, to which "
            f"{ACTPLAN_URL} links."
        ),
    ],
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out instances that lack something or are damaged.")
    ] = False,
) -> None:
    """Prepare ActPlan-1K from its full release.

    Example: `lmms-egoplan data prepare actplan --source ActPlan-1K/annotation`
    """
    from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
    from lmms_egoplan.benchmarks.actplan.records import SourceError

    try:
        summary = prepare_actplan(source, skip_missing)
    except (SourceError, StorageError, OSError) as error:
        _fail(error)
    print_release(summary)


@build.command("egointent")
def build_egointent(
    goalstep: Annotated[Path, typer.Option(help=f"Ego4D Goal-Step's annotation file, from {GOALSTEP_URL}.")],
    videos: Annotated[Path, typer.Option(help="Folder with <video_uid>.mp4; steps of other videos are left out.")],
    out: Annotated[Path, typer.Option(help="The file to write, JSON Lines, for `data prepare egointent`.")],
    before_end: Annotated[float, typer.Option(help="Seconds before the end of a step at which it is cut.")] = 0.5,
) -> None:
    """Make Goal-Step steps: records of EgoIntent's form from Ego4D Goal-Step, whose labels nobody has verified.

    They are not EgoIntent's steps, and their scores do not compare with the paper's.

    Example: `lmms-egoplan data build egointent --goalstep goalstep_valid_public.json --videos ego4d/full_scale
    --out egointent.jsonl`
    """
    from lmms_egoplan.benchmarks.egointent.goalstep import GoalStepError, build_records, write_records

    try:
        built = build_records(goalstep, videos, before_end)
        write_records(built.records, out)
    except (GoalStepError, StorageError, OSError) as error:
        _fail(error)
    reasons = "; ".join(f"{count}: {reason}" for reason, count in built.left_out.most_common())
    typer.echo(
        f"{len(built.records)} Goal-Step steps of {len({record.video_id for record in built.records})} videos, all "
        f"unverified, written to {out}\nLeft out: {reasons or 'none'}"
    )


@app.command()
def status() -> None:
    """Show which splits are prepared, and how complete they are.

    Example: `lmms-egoplan data status`
    """
    table = Table("benchmark", "split", "questions", "missing", "prepared", "folder")
    unreadable = []
    try:
        for benchmark, split in prepared_splits():
            summary = load_summary(benchmark, split)
            if summary is None:
                continue
            table.add_row(
                benchmark,
                split,
                f"{summary['questions']} of {summary['split_size']}",
                str(summary["split_size"] - summary["questions"]),
                summary["prepared"],
                str(split_dir(benchmark, split)),
            )
            try:
                if benchmark in _PREPARED:
                    _PREPARED[benchmark].check(split, summary)
            except StorageError as error:
                unreadable.append(str(error))
    except StorageError as error:
        _fail(error)
    if table.row_count:
        Console().print(table)
    else:
        typer.echo(
            f"Nothing is prepared under {data_root()} (set LMMS_EGOPLAN_DATA to look elsewhere).\n"
            "Prepare a benchmark: lmms-egoplan data prepare egoplan --help\n"
            "                 or: lmms-egoplan data prepare egothink --help\n"
            "                 or: lmms-egoplan data prepare egointent --help\n"
            "                 or: lmms-egoplan data prepare actplan --help"
        )
    if unreadable:
        _fail(StorageError("\n".join(unreadable)))


def _fail(error: Exception) -> None:
    typer.echo(f"lmms-egoplan: {error}", err=True)
    raise typer.Exit(1)
