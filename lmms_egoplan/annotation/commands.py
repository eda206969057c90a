"""``lmms-egoplan annotate`` and ``audit``."""

from collections.abc import Collection
from contextlib import closing
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lmms_egoplan.annotation import actplan, actplan_circumstances, actplan_plans, egointent, egoplan, egothink
from lmms_egoplan.annotation.agreement import WHEN_UNDEFINED, Agreement, agreements
from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.egointent import read_audit
from lmms_egoplan.annotation.export import export as export_labels
from lmms_egoplan.annotation.export import write_label_studio
from lmms_egoplan.annotation.flow import FLOWS, LABELLED, load_flow
from lmms_egoplan.annotation.pages import disputed, stage_counts
from lmms_egoplan.annotation.serve import DEFAULT_ANNOTATORS, DEFAULT_PER_ITEM, Team, media_folder, open_store, serve
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.benchmarks.actplan.commands import Instances
from lmms_egoplan.benchmarks.egoplan.commands import Ego4d, EpicKitchens
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.registry import DEMO_SETS
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.prepared_counts import SkipMissing

_HOST, _PORT, _HEIGHT = "127.0.0.1", 8350, 480
_STAYS = "by default. It stays as it was at the first start."

_Database = Annotated[Path, typer.Argument(metavar="DB", help="The database of labels.")]
_Db = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="The database of labels. It is made at the first start; later starts go on with it."
    ),
]
_Annotators = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=500,
        help=f"How many people label; {DEFAULT_ANNOTATORS} at first by default. A later start may give more.",
    ),
]
_PerItem = Annotated[
    int | None, typer.Option(min=1, help=f"How many of them label each item; {DEFAULT_PER_ITEM} {_STAYS}")
]
_CutFirst = Annotated[
    bool, typer.Option("--cut", help="Make all clips before the page opens, on all cores. Clips that exist stay.")
]
_Height = Annotated[int, typer.Option(min=16, help="Height of clips at most, in pixels.")]
_Host = Annotated[str, typer.Option(help="Address to listen on. Others than this let other machines in.")]
_Port = Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")]


def status(db: _Database) -> None:
    """Show how far the labels of a database are, and how far annotators agree.

    Example: `lmms-egoplan annotate status labels.sqlite`
    """
    with closing(_open(db)) as store:
        labelled = store.labelled()
        for title, count, needed in stage_counts(labelled, store):
            typer.echo(f"{title}: {count} of {needed} labels")
        table = _table("annotator", "labels", "state", "median seconds", right=("labels", "median seconds"))
        for known in store.progress():
            seconds = "n/a" if known.seconds is None else f"{known.seconds:.1f}"
            table.add_row(escape(known.person), str(known.labelled), known.state, seconds)
        Console().print(table)
        names = [field.name.replace("_", " ") for field in fields(Agreement)][1:]
        table = _table("agreement on", *names, right=names)
        for title, *cells in map(astuple, agreements(store.flow, labelled)):
            texts = ["n/a" if x is None else str(x) if isinstance(x, int) else f"{x:.3f}" for x in cells]
            table.add_row(escape(title), *texts)
        Console().print(table)
        typer.echo(WHEN_UNDEFINED)
        for line in store.flow.remarks(labelled):
            typer.echo(line)
        typer.echo(f"Items on which labels differ: {len(disputed(labelled, store))}")


def export(
    db: _Database,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    label_studio: Annotated[
        bool, typer.Option("--label-studio", help="Write tasks and configuration for Label Studio instead of labels.")
    ] = False,
) -> None:
    """Write the labels of a database in the form that other commands read.

    Example: `lmms-egoplan annotate export labels.sqlite --out labels`
    """
    with closing(_open(db)) as store:
        if label_studio:
            lines = write_label_studio(store.flow, store.items(), media_folder(db), out)
        else:
            lines = export_labels(store.flow, store.labelled(), out)
    for line in lines:
        typer.echo(line)


def backup(db: _Database, out: Annotated[Path, typer.Option(metavar="FILE", help="The copy to write.")]) -> None:
    """Copy a database of labels, also while its page is open.

    Images and clips are not in the database: they stay in the folder `labels.sqlite.media`.

    Example: `lmms-egoplan annotate backup labels.sqlite --out labels-monday.sqlite`
    """
    with closing(Database(db)) as database:
        typer.echo(f"Written to {out}: {database.backup(out)} labels")


def demo(
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK", help=f"One of {', '.join(LABELLED)}.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the rendered set and the database of labels.")
    ] = Path("lmms-egoplan-labels-demo"),
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Open the page on a benchmark's small rendered set, to try it. Needs no data and no network.

    Example: `lmms-egoplan annotate demo egoplan`
    """
    if benchmark not in LABELLED:
        raise LmmsEgoplanError(f"{benchmark}: no benchmark; expected one of {', '.join(LABELLED)}")
    flow = load_flow(benchmark)
    rendered = DEMO_SETS[benchmark]
    out = out.resolve()
    source = out / rendered.folder
    if not source.is_dir():
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".copying", dir=out) as unfinished:
            copy_set(rendered, Path(unfinished)).rename(source)
    read, team = partial(flow.demo_items, source), Team(annotators, per_item)
    serve(open_store(flow, out / f"{benchmark}.sqlite", read, str(source), team), host, port)


def annotate_egoplan(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ANNOTATIONS",
            help="Questions to verify, in the form of EgoPlan_validation.json, such as `data build egoplan` makes.",
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
            help="Questions that every annotator labels first, until two seniors let them go on; 50 by default, 0 for "
            "none. They are not verified then. It stays as it was at the first start.",
        ),
    ] = None,
    skip_missing: SkipMissing = False,
    cut_first: _CutFirst = False,
    height: _Height = _HEIGHT,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Open a page on which people verify EgoPlan's questions, as the paper's annotators did.

    Kept are the questions that all annotators of a question answer alike and as the record does.

    Example: `lmms-egoplan annotate egoplan built/EgoPlan_validation.json --db labels.sqlite
    --epic-kitchens EPIC-KITCHENS --annotators 10`
    """
    roots: egoplan.Roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
    if qualification is None and not db.exists():
        qualification = egoplan.QUALIFICATION
    read = partial(egoplan.read_items, items, roots, skip_missing=skip_missing)
    team = Team(annotators, per_item, qualification)
    store = open_store(egoplan.FLOW, db, lambda _: read(), str(items), team, skip_missing=skip_missing)
    serve(store, host, port, cuts=cut_first, height=height)


def annotate_egothink(
    items: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLES",
            help="Answers, as `judge egothink` takes them; one for each model, named after the file or folder.",
        ),
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    judge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The same answers as `judge egothink` wrote them. The lead sees how far people and the judge agree; "
            "annotators see nothing of a judge. Any start may bring it.",
        ),
    ] = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Open a page on which people rate EgoThink's answers 0, 0.5 or 1, with the models hidden.

    Example: `lmms-egoplan annotate egothink gpt-4v.jsonl --db labels.sqlite --annotators 3 --per-item 3`
    """
    read = partial(egothink.read_items, items, judged=judge or ())
    store = open_store(egothink.FLOW, db, read, ", ".join(map(str, items)), Team(annotators, per_item))
    if judge:
        typer.echo(f"The judge has rated {egothink.num_judged(store.items())} of {store.num_items()} answers.")
    serve(store, host, port)


def annotate_egointent(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ANNOTATIONS",
            help="Steps to revise, in the form of FORMAT.md, such as `data build egointent` makes.",
        ),
    ],
    videos: Annotated[Path, typer.Option(help="Folder with `<video_id>.mp4`.")],
    db: _Db,
    annotators: _Annotators = None,
    skip_missing: SkipMissing = False,
    cut_first: _CutFirst = False,
    height: _Height = _HEIGHT,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Open a page on which people revise the labels and the cut of EgoIntent's steps, and check them for hindsight.

    One person revises a step, another one reviews it; the lead decides where they differ.

    Example: `lmms-egoplan annotate egointent steps.jsonl --videos ego4d/full_scale --db labels.sqlite`
    """
    read, team = partial(egointent.read_items, items, videos, skip_missing=skip_missing), Team(annotators)
    store = open_store(egointent.FLOW, db, lambda _: read(), str(items), team, skip_missing=skip_missing)
    serve(store, host, port, cuts=cut_first, height=height)


def annotate_actplan(
    items: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLANS",
            help="Plans, as `score actplan` takes them. A file whose lines have no model is named after its model.",
        ),
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    instances: Instances = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Open a page on which people label plans: correctness, commonsense and six types of errors.

    Example: `lmms-egoplan annotate actplan plans.jsonl --db labels.sqlite --annotators 3 --per-item 2`
    """
    read = partial(actplan.read_items, items, instances=instances)
    team = Team(annotators, per_item)
    serve(open_store(actplan.FLOW, db, read, ", ".join(map(str, items)), team), host, port)


def annotate_circumstances(
    items: Annotated[
        Path, typer.Argument(metavar="FILE", help="`circumstances.jsonl`, as `data build actplan` writes it.")
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: _PerItem = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Open a page on which people choose circumstances of counterfactual activities: plausible, and sayable in BDDL.

    Example: `lmms-egoplan annotate actplan-circumstances built/circumstances.jsonl --db circumstances.sqlite`
    """
    flow, team = actplan_circumstances.FLOW, Team(annotators, per_item)
    serve(open_store(flow, db, lambda _: actplan_circumstances.read_items(items), str(items), team), host, port)


def annotate_plans(
    items: Annotated[
        Path, typer.Argument(metavar="FILE", help="`instances.jsonl`, as `data build actplan` writes it.")
    ],
    db: _Db,
    annotators: _Annotators = None,
    per_item: Annotated[
        int | None, typer.Option(min=2, help=f"How many people write a plan of each instance; 2 {_STAYS}")
    ] = None,
    host: _Host = _HOST,
    port: _Port = _PORT,
) -> None:
    """Open a page on which people write gold plans, at least two of each instance.

    Example: `lmms-egoplan annotate actplan-plans built/instances.jsonl --db plans.sqlite --annotators 3`
    """
    read = partial(actplan_plans.read_items, items)
    serve(open_store(actplan_plans.FLOW, db, read, str(items), Team(annotators, per_item)), host, port)


def audit_egointent(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Folder that `annotate export` has written.")],
) -> None:
    """Show how EgoIntent's labels and cuts were changed and how long steps are, beside the paper's figures.

    Rates are in percent, times in seconds.

    Example: `lmms-egoplan audit egointent labels`
    """
    table = _table("rate", "here", "count", "paper", "in the paper", right=("here", "count", "paper"))
    for rate in read_audit(labels):
        where = "; ".join(text for text in (rate.printed, rate.where) if text)
        name = rate.rate.replace("_", " ")
        table.add_row(name, str(rate.value), f"{rate.count} of {rate.of}", str(rate.paper), where)
    Console().print(table)


def _open(db: Path) -> Store:
    database = Database(db)
    name = database.settings.benchmark
    if name in FLOWS:
        return Store(database, load_flow(name))
    raise LmmsEgoplanError(f"{db}: holds labels of {name}, which this version does not know")


def _table(*columns: str, right: Collection[str]) -> Table:
    """Make a table, with some columns right-aligned."""
    return Table(*(Column(column, justify="right" if column in right else "left") for column in columns))
