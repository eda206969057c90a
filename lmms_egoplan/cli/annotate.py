"""``lmms-egoplan annotate status``, ``export`` and ``backup``; the benchmarks bring the commands that open a page."""

from contextlib import closing
from dataclasses import astuple, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from lmms_egoplan.annotation.options import Annotators, Host, PerItem, Port
from lmms_egoplan.benchmarks.registry import BENCHMARKS

if TYPE_CHECKING:
    from lmms_egoplan.annotation.flow import Flow
    from lmms_egoplan.annotation.store import Store

app = typer.Typer(no_args_is_help=True)
_LABELLED = tuple(benchmark for benchmark in BENCHMARKS if benchmark.is_labelled)
_NAMES = tuple(benchmark.name for benchmark in _LABELLED)
_Db = Annotated[Path, typer.Option(metavar="FILE", help="The database of labels.")]


@app.command()
def status(db: _Db) -> None:
    """Show how far the labels of a database are, and how far annotators agree.

    Example: `lmms-egoplan annotate status --db labels.sqlite`
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


@app.command()
def export(
    db: _Db,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    label_studio: Annotated[
        bool,
        typer.Option("--label-studio", help="Write tasks and configuration for Label Studio instead of labels."),
    ] = False,
) -> None:
    """Write the labels of a database in the form that other commands read.

    Example: `lmms-egoplan annotate export --db labels.sqlite --out labels`
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


@app.command()
def backup(db: _Db, out: Annotated[Path, typer.Option(metavar="FILE", help="The copy to write.")]) -> None:
    """Copy a database of labels, also while its page is open.

    Images and clips are not in the database: they stay in the folder `labels.sqlite.media`.

    Example: `lmms-egoplan annotate backup --db labels.sqlite --out labels-monday.sqlite`
    """
    from lmms_egoplan.annotation.database import Database

    with closing(Database(db, ())) as database:
        typer.echo(f"Written to {out}: {database.backup(out)} labels")


@app.command(
    help="Open the page on a benchmark's small rendered set, to try it. Needs no data and no network.\n\n"
    f"Example: `lmms-egoplan annotate demo {_NAMES[0]}`"
)
def demo(
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK", help=f"One of {', '.join(_NAMES)}.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the rendered set and the database of labels.")
    ] = Path("lmms-egoplan-labels-demo"),
    annotators: Annotators = None,
    per_item: PerItem = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.errors import LmmsEgoplanError

    if benchmark not in _NAMES:
        raise LmmsEgoplanError(f"{benchmark}: no benchmark; expected one of {', '.join(_NAMES)}")
    entry = _LABELLED[_NAMES.index(benchmark)]
    flow = entry.load_annotation()
    rendered = entry.load_demo()
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


def _open(db: Path) -> "tuple[Store, Flow]":
    from lmms_egoplan.annotation.database import benchmark_of
    from lmms_egoplan.annotation.store import Store
    from lmms_egoplan.errors import LmmsEgoplanError

    name = benchmark_of(db)
    for benchmark in _LABELLED:
        if benchmark.name == name.partition("-")[0]:
            for flow in benchmark.load_flows():
                if flow.name == name:
                    return Store(db, flow.stages), flow
    raise LmmsEgoplanError(f"{db}: holds labels of {name}, which this version does not know")
