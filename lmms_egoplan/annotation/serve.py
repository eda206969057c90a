"""A database made or opened again, and its page served until it is stopped."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from lmms_egoplan.annotation.clips import HEIGHT, KeptImage, MediaFolder
from lmms_egoplan.annotation.database import Settings, StoreError, create
from lmms_egoplan.annotation.flow import Flow, Item
from lmms_egoplan.annotation.options import DEFAULT_ANNOTATORS, DEFAULT_PER_ITEM
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.errors import LmmsEgoplanError


def media_folder(db: Path, height: int = HEIGHT) -> MediaFolder:
    """The media of a database, next to it, whatever links lead to it."""
    db = db.resolve()
    return MediaFolder(db.with_name(f"{db.name}.media"), height)


def open_store(
    flow: Flow,
    db: Path,
    read_items: Callable[[MediaFolder], Sequence[Item]],
    where: str,
    annotators: int | None = None,
    per_item: int | None = None,
    qualification: int | None = None,
    skip_missing: bool = False,
    **settings: int,
) -> Store:
    """Open a database for a server; make it where it is absent.

    Args:
        read_items: the items as they are now, which must be those that the database was made of but for what is
            `Item.changing`; not called for a database that cannot be used.
        skip_missing: they may be some of these, since media can be missing now that were there, or the reverse.
        where: names their file in messages.
        settings: more of `Settings`, for a new database.

    Raises:
        LmmsEgoplanError: the items are wrong or others, or the database cannot be used.
    """
    items = None
    if not db.exists():
        items = read_items(media_folder(db))
        made = Settings(
            flow.name,
            DEFAULT_ANNOTATORS if annotators is None else annotators,
            DEFAULT_PER_ITEM if per_item is None else per_item,
            qualification or 0,
            **settings,
        )
        create(db, made, items, flow.stages)
    store = Store(db, flow.stages, alone=True)
    try:
        if store.settings.benchmark != flow.name:
            raise StoreError(f"{db}: holds labels of {store.settings.benchmark}, not of {flow.name}; give another --db")
        store.renew_items(read_items(media_folder(db)) if items is None else items, where, skip_missing)
        fixed = {"--per-item": (per_item, store.settings.per_item)}
        fixed |= {"--qualification": (qualification, store.settings.qualification)}
        for option, (given, stored) in fixed.items():
            if given not in (None, stored):
                raise StoreError(f"{option} {given}: {db} was made with {stored}, which stays; leave {option} out")
        if annotators is not None:
            store.add_annotators(annotators)
    except BaseException:
        store.close()
        raise
    return store


def serve(store: Store, flow: Flow, host: str, port: int, *, cuts: bool = False, height: int = HEIGHT) -> None:
    """Print everyone's link and serve the page until the process is stopped.

    Args:
        cuts: whether all clips are made first.
        height: of clips at most, pixels.

    Raises:
        LmmsEgoplanError: the server's packages are absent, or the port is taken.
    """
    try:
        import uvicorn

        from lmms_egoplan.annotation.app import make_app
    except ModuleNotFoundError as error:
        raise LmmsEgoplanError(
            f"{error.name} is not installed. Install it with: pip install 'lmms-egoplan[annotate]'"
        ) from error
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise LmmsEgoplanError(
            f"cannot listen on {host}, port {port}: {error.strerror}; give another --port, or --host"
        ) from error
    folder = media_folder(store.path, height)
    if cuts:
        items = store.items()
        media = dict.fromkeys(part for item in items for part in flow.form(item.shown, (), 0).media)
        made = [part for part in media if not isinstance(part, KeptImage)]
        problems = folder.make_all(made)
        typer.echo(f"Pictures and clips: {len(made):,}, of which {len(problems)} cannot be shown and can be skipped")
        for problem in dict.fromkeys(problems):
            typer.echo(f"  {problem}")
    name = f"[{host}]" if ":" in host else socket.gethostname() if host == "0.0.0.0" else host
    typer.echo("Give each person their own link; whoever has it can label under their name.")
    for person in store.people():
        link = "closed" if person.is_closed else f"http://{name}:{port}/enter/{person.token}"
        typer.echo(f"  {person.title}: {link}")
    typer.echo(f"Labels are in {store.path}. Stop with Ctrl+C; the same command goes on.")
    # No log of requests: links are in it.
    page = make_app(store, flow, folder, {host, socket.gethostname(), socket.getfqdn()})
    config = uvicorn.Config(page, log_level="warning", access_log=False, server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        store.close()
