"""``lmms-egoplan annotate`` and ``audit egointent-labels``: label data on a local web page."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.options import (
    Ego4d,
    EpicKitchens,
    Instances,
    OutFile,
    OutFolder,
    Overwrite,
    Runs,
    Sample,
    SkipMissing,
)
from lmms_egoplan.outputs import output_file, output_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lmms_egoplan.annotation.clips import MediaFolder
    from lmms_egoplan.annotation.flow import Flow, Item
    from lmms_egoplan.annotation.serve import Team
    from lmms_egoplan.annotation.store import Store

annotate = typer.Typer(
    help="""
    Label data with human annotators on a local web page. Each annotator gets a personal link.

    Example: `lmms-egoplan annotate egothink gpt-4v.jsonl --db labels.sqlite`, then
    `lmms-egoplan annotate export labels.sqlite --out labels`

    `--study` runs a whole study, such as a paper's; see docs/studies.md.
    """,
    no_args_is_help=True,
)
audit_labels = typer.Typer()

# Names and numbers of the room, for help.
BENCHMARKS = ("egoplan", "egothink", "egointent", "actplan")
STUDIES = ("actplan", "egointent", "egoplan", "egothink", "egothink-questions")
DEFAULT_ANNOTATORS = 3
DEFAULT_PER_ITEM = 2
FEWEST_RATED = 30
LABEL_STUDIO_TOKEN = "LABEL_STUDIO_API_KEY"

_HOST = "127.0.0.1"
_PORT = 8350
_HEIGHT = 480
_FIXED = "by default. Fixed when the database is created."

_Database = Annotated[Path, typer.Argument(metavar="DB", help="SQLite file with the labels.")]
_Db = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="SQLite file for the labels. Created if missing; reopened otherwise."
    ),
]
_Annotators = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=500,
        help=f"Number of annotators; {DEFAULT_ANNOTATORS} by default. You can raise it later.",
    ),
]
_PerItem = Annotated[
    int | None, typer.Option(min=1, help=f"Annotators per item; {DEFAULT_PER_ITEM} {_FIXED}")
]
_StudyFile = Annotated[
    str | None,
    typer.Option(
        "--study",
        metavar="FILE",
        help=(
            f"Study file with rounds and people, or one of {', '.join(STUDIES)}. Fixed when the "
            "database is created; people can be added at a restart."
        ),
    ),
]
_More = Annotated[
    bool, typer.Option("--more", help="Add items that the database does not contain yet.")
]
_Renew = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help=(
            "Replace the link of a person, such as `annotator-2`. The old link stops working, "
            "and the labels stay. Repeat the option for several people."
        ),
    ),
]
_CutFirst = Annotated[
    bool,
    typer.Option(
        "--cut",
        help="Create all clips before the page opens, on all cores. Existing clips are reused.",
    ),
]
_Height = Annotated[int, typer.Option(min=16, help="Maximum height of clips, in pixels.")]
_Host = Annotated[
    str, typer.Option(help="Address to listen on. By default, only this machine can connect.")
]
_Port = Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")]


@annotate.command("status")
def status(db: _Database) -> None:
    """Show the progress of a database and the agreement of its annotators.

    Example: `lmms-egoplan annotate status labels.sqlite`
    """
    from lmms_egoplan.annotation.serve import open_existing
    from lmms_egoplan.annotation.status import print_status

    with closing(open_existing(db)) as store:
        print_status(store)


@annotate.command("export")
def export_labels(
    db: _Database,
    out: OutFolder,
    label_studio: Annotated[
        bool,
        typer.Option(
            "--label-studio", help="Write Label Studio tasks and configuration instead of labels."
        ),
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            help=(
                "With `--label-studio`: address of a running Label Studio in which to create the "
                f"project. The variable `{LABEL_STUDIO_TOKEN}` must contain an access token."
            ),
        ),
    ] = None,
) -> None:
    """Export the labels of a database for use by other commands.

    Example: `lmms-egoplan annotate export labels.sqlite --out labels`
    """
    from lmms_egoplan.annotation.export import export
    from lmms_egoplan.annotation.serve import open_existing

    if url and not label_studio:
        raise LmmsEgoplanError("--url requires --label-studio; add it, or drop --url")
    with output_folder(out, "annotate export"):
        with closing(open_existing(db)) as store:
            if label_studio:
                lines = _export_to_label_studio(store, out, url)
            else:
                lines = export(store.flow, store.labelled(), out)
        for line in lines:
            typer.echo(line)


def _export_to_label_studio(store: "Store", out: Path, url: str | None) -> list[str]:
    """Write Label Studio's files, and create a project with them if there is an address.

    Return messages.
    """
    from lmms_egoplan.annotation.export import write_label_studio
    from lmms_egoplan.annotation.label_studio import LabelStudio, setup_steps
    from lmms_egoplan.annotation.serve import media_folder

    folder = media_folder(store.database.path)
    if url is None:
        return [*write_label_studio(store.flow, store.items(), folder, out), *setup_steps(out)]
    with closing(LabelStudio(url)) as studio:
        lines = write_label_studio(store.flow, store.items(), folder, out)
        return [*lines, f"{studio.create_project(store.flow.title, out)}: the new project"]


@annotate.command("import")
def import_labels(
    db: _Database,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Label Studio's JSON export, or predictions.")
    ],
) -> None:
    """Import labels from Label Studio, or predictions with which people's forms start.

    Stop the page first. Label Studio's tasks must be from `annotate export --label-studio` of this
    database. If a record is invalid, nothing is imported. You can repeat an import: it stores only
    what has changed.

    Predictions are lines such as `{"item": "Activity/1 of gpt-4v", "values": {"rating": "0.5"}}`.

    Example: `lmms-egoplan annotate import labels.sqlite project-1.json`
    """
    from lmms_egoplan.annotation.importing import import_file
    from lmms_egoplan.annotation.serve import open_existing

    with closing(open_existing(db, exclusive=True)) as store:
        for line in import_file(store, file):
            typer.echo(line)


@annotate.command("backup")
def backup(db: _Database, out: OutFile, overwrite: Overwrite = False) -> None:
    """Copy a database of labels. Works while its page is open.

    The copy has no images or clips: they stay in the folder `labels.sqlite.media`.

    Example: `lmms-egoplan annotate backup labels.sqlite --out labels-monday.sqlite`
    """
    from lmms_egoplan.annotation.database import Database

    with output_file(out, [db], overwrite=overwrite), closing(Database(db)) as database:
        typer.echo(f"Written to {out}: {database.backup(out)} labels")


@annotate.command("demo")
def demo(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCHMARK", help=f"One of {', '.join(BENCHMARKS)}.")
    ],
    out: OutFolder = Path("lmms-egoplan-labels-demo"),
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Try the page on a small rendered set of a benchmark. Needs no data and no network.

    Example: `lmms-egoplan annotate demo egoplan`
    """
    from lmms_egoplan.annotation.demo import open_demo
    from lmms_egoplan.annotation.serve import Team, serve

    with output_folder(out, "annotate demo"):
        store = open_demo(benchmark, out, Team(annotators, per_item))
    serve(store, host, port)


@annotate.command("egoplan")
def annotate_egoplan(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ANNOTATIONS",
            help=(
                "Questions to verify, in the format of EgoPlan_validation.json, as `data build "
                "egoplan` writes it."
            ),
        ),
    ],
    db: _Db,
    epic_kitchens: EpicKitchens = None,
    ego4d: Ego4d = None,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    qualification: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=(
                "Number of qualification questions (default 50), which are not verified. Two "
                "senior annotators review them before an annotator continues. 0 skips this step. "
                "Fixed when the database is created."
            ),
        ),
    ] = None,
    skip_missing: SkipMissing = False,
    cut_first: _CutFirst = False,
    height: _Height = _HEIGHT,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Verify EgoPlan questions with human annotators (section A.3 of the paper).

    Opens a local web page. A question is kept if every annotator chooses the recorded answer.

    Example: `lmms-egoplan annotate egoplan built/EgoPlan_validation.json --db labels.sqlite
    --epic-kitchens EPIC-KITCHENS --annotators 10`
    """
    from lmms_egoplan.annotation import egoplan
    from lmms_egoplan.annotation.serve import Team, serve
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS

    if qualification is None and study is None and not db.exists():
        qualification = egoplan.QUALIFICATION
    roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
    team = Team(annotators, per_item, qualification, study, more, renew or ())
    store = _open_store(
        egoplan.FLOW,
        db,
        lambda _: egoplan.read_items(items, roots, skip_missing=skip_missing),
        str(items),
        team,
        skip_missing=skip_missing,
    )
    serve(store, host, port, cuts=cut_first, height=height)


@annotate.command("egoplan-failures")
def annotate_egoplan_failures(
    runs: Runs,
    db: _Db,
    sample: Sample = None,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Label the types of failures in a run's wrong answers with human annotators (Fig.
    6 of the paper).

    Opens a local web page, which shows goal, past actions, frames and choices, but not the model's
    name. Answers in which no choice was read are excluded, and so are tasks without video and
    shortcuts.

    Example: `lmms-egoplan annotate egoplan-failures runs/my-model --sample 100 --db labels.sqlite`
    """
    from lmms_egoplan.annotation import egoplan_failures
    from lmms_egoplan.annotation.serve import Team, serve

    read = partial(egoplan_failures.read_items, runs, sample)
    team = Team(annotators, per_item, study=study, more=more, renew=renew or ())
    serve(_open_store(egoplan_failures.FLOW, db, read, _joined(runs), team), host, port)


@annotate.command("egothink")
def annotate_egothink(
    items: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLES",
            help=(
                "Answers to rate, in any form that `judge egothink` reads. Give one file or folder "
                "per model; its name becomes the model's name."
            ),
        ),
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    judge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help=(
                "The same answers, rated by `judge egothink`. The lead sees how well people and "
                "judge agree; annotators never see the judge's ratings. You can add it at any "
                "restart."
            ),
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Rate a random sample of each model's answers; use {FEWEST_RATED} or more."
        ),
    ] = None,
    by: Annotated[
        Literal["dimension", "rating", "dimension,rating"] | None,
        typer.Option(
            help="Stratify the sample by dimension, the judge's rating, or both (default)."
        ),
    ] = None,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Rate EgoThink answers 0, 0.5 or 1 with human annotators, who do not see the model's name.

    Opens a local web page. With `--judge judged.jsonl --sample 60`, people rate a random sample.
    From its export, `report` corrects the judge's score.

    Example: `lmms-egoplan annotate egothink judged.jsonl --db labels.sqlite --judge judged.jsonl
    --sample 60`
    """
    from lmms_egoplan.annotation import egothink
    from lmms_egoplan.annotation.serve import Team, serve

    egothink.check_sampling(sample, by, study)
    team = Team(annotators, per_item, study=study, more=more, renew=renew or ())
    store = _open_store(
        egothink.FLOW,
        db,
        lambda folder: egothink.choose_items(
            egothink.read_items(items, folder, judge or ()), sample, by, db
        ),
        _joined(items),
        team,
    )
    if judge:
        num_judged = egothink.num_judged(store.items())
        typer.echo(f"The judge has rated {num_judged} of {store.num_items()} answers.")
    serve(store, host, port)


@annotate.command("egothink-questions")
def annotate_egothink_questions(
    frames: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder written by `data build egothink`.")
    ],
    db: _Db,
    annotators: Annotated[
        int | None, typer.Option(min=4, max=500, help="Number of people; 9 by default.")
    ] = None,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Write questions for EgoThink's dimensions about frames, and review them.

    Opens a local web page. One person writes a question about a picture. It is kept if three other
    people agree that it meets the definition of its dimension.

    Example: `lmms-egoplan annotate egothink-questions built --db questions.sqlite`
    """
    from lmms_egoplan.annotation import egothink_questions
    from lmms_egoplan.annotation.serve import Team, serve

    if annotators is None and study is None and not db.exists():
        annotators = 9
    path = frames / "frames.jsonl"
    read = partial(egothink_questions.read_items, path)
    team = Team(annotators, study=study, more=more, renew=renew or ())
    serve(_open_store(egothink_questions.FLOW, db, read, str(path), team), host, port)


@annotate.command("egointent")
def annotate_egointent(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ANNOTATIONS",
            help=(
                "Steps to revise, in the format of FORMAT.md. `data build egointent` writes such "
                "files."
            ),
        ),
    ],
    videos: Annotated[Path, typer.Option(help="Folder with `<video_id>.mp4`.")],
    db: _Db,
    annotators: _Annotators = None,
    skip_missing: SkipMissing = False,
    cut_first: _CutFirst = False,
    height: _Height = _HEIGHT,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Revise the labels and cuts of EgoIntent steps with human annotators, and check them for
    hindsight.

    Opens a local web page. One person revises a step and another verifies it. The lead decides
    where people differ.

    Example: `lmms-egoplan annotate egointent steps.jsonl --videos ego4d/full_scale --db
    labels.sqlite`
    """
    from lmms_egoplan.annotation import egointent
    from lmms_egoplan.annotation.serve import Team, serve

    store = _open_store(
        egointent.FLOW,
        db,
        lambda _: egointent.read_items(items, videos, skip_missing=skip_missing),
        str(items),
        Team(annotators, study=study, more=more, renew=renew or ()),
        skip_missing=skip_missing,
    )
    serve(store, host, port, cuts=cut_first, height=height)


@annotate.command("actplan")
def annotate_actplan(
    items: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLANS",
            help=(
                "Plans to label, as `score actplan` reads them. Without a `model` field, the file "
                "name is the model."
            ),
        ),
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    instances: Instances = None,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Label ActPlan-1K plans with human annotators: correctness, commonsense and six error types.

    Opens a local web page.

    Example: `lmms-egoplan annotate actplan plans.jsonl --db labels.sqlite --annotators 3 --per-item
    2`
    """
    from lmms_egoplan.annotation import actplan
    from lmms_egoplan.annotation.serve import Team, serve

    read = partial(actplan.read_items, items, instances=instances)
    team = Team(annotators, per_item, study=study, more=more, renew=renew or ())
    serve(_open_store(actplan.FLOW, db, read, _joined(items), team), host, port)


@annotate.command("actplan-circumstances")
def annotate_circumstances(
    items: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="`circumstances.jsonl` from `data build actplan`."),
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Choose circumstances for counterfactual activities with human annotators.

    Opens a local web page. A circumstance is kept if it is plausible and can be expressed in BDDL.

    Example: `lmms-egoplan annotate actplan-circumstances built/circumstances.jsonl --db
    circumstances.sqlite`
    """
    from lmms_egoplan.annotation.actplan_circumstances import FLOW, read_items
    from lmms_egoplan.annotation.serve import Team, serve

    team = Team(annotators, per_item, study=study, more=more, renew=renew or ())
    serve(_open_store(FLOW, db, lambda _: read_items(items), str(items), team), host, port)


@annotate.command("actplan-plans")
def annotate_plans(
    items: Annotated[
        Path, typer.Argument(metavar="FILE", help="`instances.jsonl` from `data build actplan`.")
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: Annotated[
        int | None, typer.Option(min=2, help=f"Plans per instance; 2 {_FIXED}")
    ] = None,
    study: _StudyFile = None,
    more: _More = False,
    renew: _Renew = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Write gold plans with human annotators, at least two per instance.

    Opens a local web page.

    Example: `lmms-egoplan annotate actplan-plans built/instances.jsonl --db plans.sqlite
    --annotators 3`
    """
    from lmms_egoplan.annotation.actplan_plans import FLOW, read_items
    from lmms_egoplan.annotation.serve import Team, serve

    team = Team(annotators, per_item, study=study, more=more, renew=renew or ())
    serve(_open_store(FLOW, db, partial(read_items, items), str(items), team), host, port)


@audit_labels.command("egointent-labels")
def audit_egointent(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="Folder written by `annotate export`.")
    ],
) -> None:
    """Compare an EgoIntent export with the paper: changed labels, moved cuts and step durations.

    Rates are in percent, times in seconds.

    Example: `lmms-egoplan audit egointent-labels labels`
    """
    from lmms_egoplan.annotation.egointent_audit import print_audit

    print_audit(labels)


def _open_store(
    flow: "Flow",
    db: Path,
    read_items: "Callable[[MediaFolder], Sequence[Item]]",
    where: str,
    team: "Team",
    *,
    skip_missing: bool = False,
) -> "Store":
    """Reopen a database, or create it if missing."""
    from lmms_egoplan.annotation.serve import create_store, reopen_store

    if db.exists():
        return reopen_store(flow, db, read_items, where, team, skip_missing=skip_missing)
    return create_store(flow, db, read_items, team)


def _joined(paths: list[Path]) -> str:
    """Return the names of several files, for messages."""
    return ", ".join(map(str, paths))
