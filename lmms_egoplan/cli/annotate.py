"""Define ``lmms-egoplan annotate`` and ``audit``."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lmms_egoplan.annotation import (
    actplan,
    actplan_circumstances,
    actplan_plans,
    egointent,
    egoplan,
    egothink,
)
from lmms_egoplan.annotation.agreement import WHEN_UNDEFINED, Agreement, agreements
from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.egointent import read_audit
from lmms_egoplan.annotation.egoplan_failures import read_items as read_failures
from lmms_egoplan.annotation.egothink_questions import read_items as read_frames
from lmms_egoplan.annotation.export import export as export_labels
from lmms_egoplan.annotation.export import write_label_studio
from lmms_egoplan.annotation.flow import FLOWS, LABELLED, Item, load_flow
from lmms_egoplan.annotation.importing import import_file
from lmms_egoplan.annotation.pages import disputed, stage_counts
from lmms_egoplan.annotation.serve import (
    DEFAULT_ANNOTATORS,
    DEFAULT_PER_ITEM,
    Team,
    media_folder,
    open_store,
    serve,
)
from lmms_egoplan.annotation.store import Store, kept_predictions
from lmms_egoplan.annotation.study import STUDIES, read_study
from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import whole_folder
from lmms_egoplan.options import (
    Ego4d,
    EpicKitchens,
    Instances,
    OutFile,
    OutFolder,
    Overwrite,
    Runs,
    Sample,
)
from lmms_egoplan.outputs import output_file, output_folder
from lmms_egoplan.prepared_counts import SkipMissing
from lmms_egoplan.stats.correction import FEWEST_RATED

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
    with closing(_open(db)) as store:
        labelled = store.labelled()
        for title, count, needed in stage_counts(labelled, store):
            typer.echo(f"{title}: {count} of {needed} labels")
        Console().print(_progress_table(store))
        Console().print(_agreement_table(agreements(store.flow, labelled)))
        typer.echo(WHEN_UNDEFINED)
        for line in (*store.flow.remarks(labelled), *kept_predictions(labelled)):
            typer.echo(line)
        typer.echo(f"Items with differing labels: {len(disputed(labelled, store))}")


def _progress_table(store: Store) -> Table:
    """Return a row for each annotator."""
    table = Table(
        "annotator",
        Column("labels", justify="right"),
        "state",
        Column("median seconds", justify="right"),
        Column("gold items right", justify="right"),
    )
    for progress in store.progress():
        table.add_row(
            escape(progress.person),
            str(progress.labelled),
            progress.state,
            "n/a" if progress.seconds is None else f"{progress.seconds:.1f}",
            f"{progress.gold_right} of {progress.gold}",
        )
    return table


def _agreement_table(rows: Sequence[Agreement]) -> Table:
    """Return a row for each scale."""
    names = [field.name for field in fields(Agreement) if field.name != "title"]
    table = Table("agreement on")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(escape(row.title), *(_number(getattr(row, name)) for name in names))
    return table


def _number(value: float | None) -> str:
    """Return a number of the table of agreement."""
    if value is None:
        return "n/a"
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}"


@annotate.command("export")
def export(
    db: _Database,
    out: OutFolder,
    label_studio: Annotated[
        bool,
        typer.Option(
            "--label-studio", help="Write Label Studio tasks and configuration instead of labels."
        ),
    ] = False,
) -> None:
    """Export the labels of a database for use by other commands.

    Example: `lmms-egoplan annotate export labels.sqlite --out labels`
    """
    with output_folder(out, "annotate export"):
        with closing(_open(db)) as store:
            if label_studio:
                lines = write_label_studio(store.flow, store.items(), media_folder(db), out)
            else:
                lines = export_labels(store.flow, store.labelled(), out)
        for line in lines:
            typer.echo(line)


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
    with closing(_open(db, exclusive=True)) as store:
        for line in import_file(store, file):
            typer.echo(line)


@annotate.command("backup")
def backup(db: _Database, out: OutFile, overwrite: Overwrite = False) -> None:
    """Copy a database of labels. Works while its page is open.

    The copy has no images or clips: they stay in the folder `labels.sqlite.media`.

    Example: `lmms-egoplan annotate backup labels.sqlite --out labels-monday.sqlite`
    """
    with output_file(out, [db], overwrite=overwrite), closing(Database(db)) as database:
        typer.echo(f"Written to {out}: {database.backup(out)} labels")


@annotate.command("demo")
def demo(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCHMARK", help=f"One of {', '.join(LABELLED)}.")
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
    with output_folder(out, "annotate demo"):
        if benchmark not in LABELLED:
            raise LmmsEgoplanError(
                f"Unknown benchmark {benchmark!r}; choose one of {', '.join(LABELLED)}"
            )
        flow = load_flow(benchmark)
        rendered = DEMO_SETS[benchmark]
        team = Team(annotators, per_item)
        source = out.resolve() / rendered.folder
        if not source.is_dir():
            with whole_folder(source) as folder:
                copy_set(rendered, folder.parent)
        read = partial(flow.demo_items, source)
        store = open_store(flow, source.with_name(f"{benchmark}.sqlite"), read, str(source), team)
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
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Verify EgoPlan questions with human annotators (section A.3 of the paper).

    Opens a local web page. A question is kept if every annotator chooses the recorded answer.

    Example: `lmms-egoplan annotate egoplan built/EgoPlan_validation.json --db labels.sqlite
    --epic-kitchens EPIC-KITCHENS --annotators 10`
    """
    roots: egoplan.Roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
    if qualification is None and study is None and not db.exists():
        qualification = egoplan.QUALIFICATION

    def read(_: MediaFolder) -> list[Item]:
        return egoplan.read_items(items, roots, skip_missing=skip_missing)

    team = Team(annotators, per_item, qualification, study, more)
    store = open_store(egoplan.FLOW, db, read, str(items), team, skip_missing=skip_missing)
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
    flow = load_flow("egoplan-failures")
    team = Team(annotators, per_item, study=study, more=more)
    read = partial(read_failures, runs, sample)
    serve(open_store(flow, db, read, ", ".join(map(str, runs)), team), host, port)


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
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Rate EgoThink answers 0, 0.5 or 1 with human annotators, who do not see the model's name.

    Opens a local web page. With `--judge judged.jsonl --sample 60`, people rate a random sample.
    From its export, `report` corrects the judge's score.

    Example: `lmms-egoplan annotate egothink judged.jsonl --db labels.sqlite --judge judged.jsonl
    --sample 60`
    """
    if by and sample is None:
        raise LmmsEgoplanError(f"--by {by}: requires --sample, the number of answers to draw")
    if sample and study and (read_study(study).training or read_study(study).gold):
        raise LmmsEgoplanError(
            f"--sample {sample}: not possible with the training or gold items of {study}; drop one"
        )

    def read(folder: MediaFolder) -> list[Item]:
        answers = egothink.read_items(items, folder, judge or ())
        if db.exists():
            with closing(_open(db)) as stored:
                return egothink.same_sample(answers, stored.items(), sample, db)
        if sample is None:
            return answers
        return egothink.sample_items(answers, sample, by or "dimension,rating")

    team = Team(annotators, per_item, study=study, more=more)
    store = open_store(egothink.FLOW, db, read, ", ".join(map(str, items)), team)
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
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Write questions for EgoThink's dimensions about frames, and review them.

    Opens a local web page. One person writes a question about a picture. It is kept if three other
    people agree that it meets the definition of its dimension.

    Example: `lmms-egoplan annotate egothink-questions built --db questions.sqlite`
    """
    path = frames / "frames.jsonl"
    if annotators is None and study is None and not db.exists():
        annotators = 9
    flow = load_flow("egothink-questions")
    team = Team(annotators, study=study, more=more)
    serve(open_store(flow, db, partial(read_frames, path), str(path), team), host, port)


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

    def read(_: MediaFolder) -> list[Item]:
        return egointent.read_items(items, videos, skip_missing=skip_missing)

    team = Team(annotators, study=study, more=more)
    store = open_store(egointent.FLOW, db, read, str(items), team, skip_missing=skip_missing)
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
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Label ActPlan-1K plans with human annotators: correctness, commonsense and six error types.

    Opens a local web page.

    Example: `lmms-egoplan annotate actplan plans.jsonl --db labels.sqlite --annotators 3 --per-item
    2`
    """
    read = partial(actplan.read_items, items, instances=instances)
    team = Team(annotators, per_item, study=study, more=more)
    serve(open_store(actplan.FLOW, db, read, ", ".join(map(str, items)), team), host, port)


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
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Choose circumstances for counterfactual activities with human annotators.

    Opens a local web page. A circumstance is kept if it is plausible and can be expressed in BDDL.

    Example: `lmms-egoplan annotate actplan-circumstances built/circumstances.jsonl --db
    circumstances.sqlite`
    """

    def read(_: MediaFolder) -> list[Item]:
        return actplan_circumstances.read_items(items)

    team = Team(annotators, per_item, study=study, more=more)
    serve(open_store(actplan_circumstances.FLOW, db, read, str(items), team), host, port)


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
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Write gold plans with human annotators, at least two per instance.

    Opens a local web page.

    Example: `lmms-egoplan annotate actplan-plans built/instances.jsonl --db plans.sqlite
    --annotators 3`
    """
    read = partial(actplan_plans.read_items, items)
    team = Team(annotators, per_item, study=study, more=more)
    serve(open_store(actplan_plans.FLOW, db, read, str(items), team), host, port)


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
    table = Table(
        "rate",
        Column("here", justify="right"),
        Column("count", justify="right"),
        Column("paper", justify="right"),
        "in the paper",
    )
    for rate in read_audit(labels):
        table.add_row(
            rate.rate.replace("_", " "),
            str(rate.value),
            f"{rate.count} of {rate.of}",
            str(rate.paper),
            "; ".join(text for text in (rate.printed, rate.where) if text),
        )
    Console().print(table)


def _open(db: Path, *, exclusive: bool = False) -> Store:
    database = Database(db, exclusive=exclusive)
    name = database.study.flow
    if name in FLOWS:
        return Store(database, load_flow(name))
    raise LmmsEgoplanError(
        f"{db}: contains labels of {name!r}, which this version does not support"
    )
