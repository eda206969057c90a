"""``lmms-egoplan annotate status``, ``export`` and ``backup``; the benchmarks bring the commands that open a page."""

from contextlib import closing
from dataclasses import astuple, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from lmms_egoplan.annotation.flows import FLOWS, LABELLED, load_flow
from lmms_egoplan.annotation.options import Annotators, CutFirst, Db, Height, Host, PerItem, Port
from lmms_egoplan.benchmarks.actplan.commands import Instances
from lmms_egoplan.benchmarks.egoplan.commands import Ego4d, EpicKitchens
from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.prepared_counts import SkipMissing

if TYPE_CHECKING:
    from lmms_egoplan.annotation.flow import Flow
    from lmms_egoplan.annotation.store import Store

_Db = Annotated[Path, typer.Argument(metavar="DB", help="The database of labels.")]


def status(db: _Db) -> None:
    """Show how far the labels of a database are, and how far annotators agree.

    Example: `lmms-egoplan annotate status labels.sqlite`
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from lmms_egoplan.annotation.agreement import WHEN_UNDEFINED, Agreement, agreements
    from lmms_egoplan.annotation.pages import disputed, stage_counts

    store, flow = _open(db)
    labelled = store.labelled()
    for title, given, needed in stage_counts(flow, labelled, store):
        typer.echo(f"{title}: {given} of {needed} labels")
    table = Table("annotator", Column("labels", justify="right"), "state", Column("median seconds", justify="right"))
    for known in store.progress():
        seconds = "n/a" if known.seconds is None else f"{known.seconds:.1f}"
        table.add_row(escape(known.person), str(known.labelled), known.state, seconds)
    Console().print(table)
    names = [field.name for field in fields(Agreement)][1:]
    table = Table("agreement on", *(Column(name.replace("_", " "), justify="right") for name in names))
    for title, *cells in map(astuple, agreements(flow, labelled)):
        texts = ["n/a" if x is None else str(x) if isinstance(x, int) else f"{x:.3f}" for x in cells]
        table.add_row(escape(title), *texts)
    Console().print(table)
    typer.echo(WHEN_UNDEFINED)
    for line in flow.remarks(labelled):
        typer.echo(line)
    items = disputed(flow, labelled, store)
    typer.echo(f"Items on which labels differ: {len(items)}")


def export(
    db: _Db,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    label_studio: Annotated[
        bool,
        typer.Option("--label-studio", help="Write tasks and configuration for Label Studio instead of labels."),
    ] = False,
) -> None:
    """Write the labels of a database in the form that other commands read.

    Example: `lmms-egoplan annotate export labels.sqlite --out labels`
    """
    store, flow = _open(db)
    if label_studio:
        from lmms_egoplan.annotation.label_studio import write_label_studio
        from lmms_egoplan.annotation.serve import media_folder

        lines = write_label_studio(flow, store.items(), media_folder(db), out)
    else:
        from lmms_egoplan.annotation.export import export as write

        lines = write(flow, store.labelled(), out)
    for line in lines:
        typer.echo(line)


def backup(db: _Db, out: Annotated[Path, typer.Option(metavar="FILE", help="The copy to write.")]) -> None:
    """Copy a database of labels, also while its page is open.

    Images and clips are not in the database: they stay in the folder `labels.sqlite.media`.

    Example: `lmms-egoplan annotate backup labels.sqlite --out labels-monday.sqlite`
    """
    from lmms_egoplan.annotation.database import Database

    with closing(Database(db, ())) as database:
        typer.echo(f"Written to {out}: {database.backup(out)} labels")


def demo(
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK", help=f"One of {', '.join(LABELLED)}.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the rendered set and the database of labels.")
    ] = Path("lmms-egoplan-labels-demo"),
    annotators: Annotators = None,
    per_item: PerItem = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open the page on a benchmark's small rendered set, to try it. Needs no data and no network.

    Example: `lmms-egoplan annotate demo egoplan`
    """
    from lmms_egoplan.annotation.serve import open_store, serve

    if benchmark not in LABELLED:
        raise LmmsEgoplanError(f"{benchmark}: no benchmark; expected one of {', '.join(LABELLED)}")
    flow = load_flow(benchmark)
    (rendered,) = (entry.load_demo() for entry in BENCHMARKS if entry.name == benchmark)
    out = out.resolve()
    if not (out / rendered.FOLDER).is_dir():
        typer.echo("Rendering the set ...")
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".rendering", dir=out) as unfinished:
            rendered.write(Path(unfinished))
            (Path(unfinished) / rendered.FOLDER).rename(out / rendered.FOLDER)
    db = out / f"{benchmark}.sqlite"
    store = open_store(
        flow, db, lambda folder: flow.demo_items(out, folder), str(out / rendered.FOLDER), annotators, per_item
    )
    serve(store, flow, host, port)


def annotate_egoplan(
    items: Annotated[
        Path,
        typer.Argument(
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

    Example: `lmms-egoplan annotate egoplan built/EgoPlan_validation.json --db labels.sqlite
    --epic-kitchens EPIC-KITCHENS --annotators 10`
    """
    from lmms_egoplan.annotation.egoplan import FLOW, SENIORS, read_items
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS

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


def annotate_egothink(
    items: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLES",
            help="Answers, as `judge egothink` takes them; one for each model, named after the file or folder.",
        ),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: PerItem = None,
    judge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The same answers as `judge egothink` wrote them. The lead sees how far people and the judge agree; "
            "annotators see nothing of a judge. Any start may bring it.",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people rate EgoThink's answers 0, 0.5 or 1, with the models hidden.

    Example: `lmms-egoplan annotate egothink gpt-4v.jsonl --db labels.sqlite --annotators 3 --per-item 3`
    """
    from lmms_egoplan.annotation.egothink import FLOW, num_judged, read_items
    from lmms_egoplan.annotation.serve import open_store, serve

    where = ", ".join(map(str, items))
    store = open_store(FLOW, db, lambda folder: read_items(items, folder, judge or ()), where, annotators, per_item)
    if judge:
        typer.echo(f"The judge has rated {num_judged(store.items())} of {store.num_items()} answers.")
    serve(store, FLOW, host, port)


def annotate_egointent(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ANNOTATIONS",
            help="Steps to revise, in the form of FORMAT.md, such as `data build egointent` makes.",
        ),
    ],
    videos: Annotated[Path, typer.Option(help="Folder with `<video_id>.mp4`.")],
    db: Db,
    annotators: Annotators = None,
    skip_missing: SkipMissing = False,
    cut_first: CutFirst = False,
    height: Height = 480,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people revise the labels and the cut of EgoIntent's steps, and check them for hindsight.

    One person revises a step, another one reviews it; the lead decides where they differ.

    Example: `lmms-egoplan annotate egointent steps.jsonl --videos ego4d/full_scale --db labels.sqlite`
    """
    from lmms_egoplan.annotation.egointent import FLOW, read_items
    from lmms_egoplan.annotation.serve import open_store, serve

    store = open_store(
        FLOW, db, lambda _: read_items(items, videos, skip_missing), str(items), annotators, skip_missing=skip_missing
    )
    serve(store, FLOW, host, port, cuts=cut_first, height=height)


def annotate_actplan(
    items: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLANS",
            help="Plans, as `score actplan` takes them. A file whose lines have no model is named after its model.",
        ),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: PerItem = None,
    instances: Instances = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people label plans: correctness, commonsense and six types of errors.

    Example: `lmms-egoplan annotate actplan plans.jsonl --db labels.sqlite --annotators 3 --per-item 2`
    """
    from lmms_egoplan.annotation.actplan import FLOW, read_items
    from lmms_egoplan.annotation.serve import open_store, serve

    where = ", ".join(map(str, items))
    store = open_store(FLOW, db, lambda folder: read_items(items, folder, instances), where, annotators, per_item)
    serve(store, FLOW, host, port)


def annotate_circumstances(
    items: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="`circumstances.jsonl`, as `data build actplan` writes it."),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: PerItem = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people choose circumstances of counterfactual activities: plausible, and sayable in BDDL.

    Example: `lmms-egoplan annotate actplan-circumstances built/circumstances.jsonl --db circumstances.sqlite`
    """
    from lmms_egoplan.annotation.actplan_circumstances import FLOW, read_items
    from lmms_egoplan.annotation.serve import open_store, serve

    store = open_store(FLOW, db, lambda _: read_items(items), str(items), annotators, per_item)
    serve(store, FLOW, host, port)


def annotate_plans(
    items: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="`instances.jsonl`, as `data build actplan` writes it."),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="How many people write a plan of each instance; 2 by default. It stays as it was at the first start.",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people write gold plans, at least two of each instance.

    Example: `lmms-egoplan annotate actplan-plans built/instances.jsonl --db plans.sqlite --annotators 3`
    """
    from lmms_egoplan.annotation.actplan_plans import FLOW, read_items
    from lmms_egoplan.annotation.serve import open_store, serve

    store = open_store(FLOW, db, lambda folder: read_items(items, folder), str(items), annotators, per_item)
    serve(store, FLOW, host, port)


def audit_egointent(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Folder that `annotate export` has written.")],
) -> None:
    """Show how EgoIntent's labels and cuts were changed and how long steps are, beside the paper's figures.

    Rates are in percent, times in seconds.

    Example: `lmms-egoplan audit egointent labels`
    """
    from rich.console import Console
    from rich.table import Column, Table

    from lmms_egoplan.annotation.egointent_audit import read_audit

    table = Table("rate", *(Column(name, justify="right") for name in ("here", "count", "paper")), "in the paper")
    for rate in read_audit(labels):
        where = "; ".join(text for text in (rate.printed, rate.where) if text)
        table.add_row(rate.rate.replace("_", " "), rate.value, f"{rate.count} of {rate.of}", rate.paper, where)
    Console().print(table)


def _open(db: Path) -> "tuple[Store, Flow]":
    from lmms_egoplan.annotation.database import benchmark_of
    from lmms_egoplan.annotation.store import Store

    name = benchmark_of(db)
    if name in FLOWS:
        flow = load_flow(name)
        return Store(db, flow.stages), flow
    raise LmmsEgoplanError(f"{db}: holds labels of {name}, which this version does not know")
