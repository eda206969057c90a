"""A database made or opened again, and its page served until it is stopped."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from lmms_egoplan.annotation.clips import HEIGHT, KeptImage, MediaFolder
from lmms_egoplan.annotation.database import Database, Settings, StoreError, create
from lmms_egoplan.annotation.flow import Flow, Item
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.errors import LmmsEgoplanError

DEFAULT_ANNOTATORS, DEFAULT_PER_ITEM = 3, 2


class Team(NamedTuple):
    """How many people label, as in `Settings`; None for the defaults of a new database, or what an old one has."""

    annotators: int | None = None
    per_item: int | None = None
    qualification: int | None = None


def media_folder(db: Path, height: int = HEIGHT) -> MediaFolder:
    """Return the media of a database, next to it, whatever links lead to it."""
    db = db.resolve()
    return MediaFolder(db.with_name(f"{db.name}.media"), height)


def open_store(
    flow: Flow,
    db: Path,
    read_items: Callable[[MediaFolder], Sequence[Item]],
    where: str,
    team: Team,
    *,
    skip_missing: bool = False,
) -> Store:
    """Open a database for a server; make it if it is absent.

    Args:
        read_items: the items as they are now, which must be those that the database was made of, except for
            `Item.changing`; not called for a database that cannot be used.
        skip_missing: they may be some of these, since media can be missing now that were there, or the reverse.
        where: names their file in messages.

    Raises:
        LmmsEgoplanError: the items are wrong or others, or the database cannot be used.
    """
    items = None
    if not db.exists():
        items = read_items(media_folder(db))
        annotators = DEFAULT_ANNOTATORS if team.annotators is None else team.annotators
        per_item = DEFAULT_PER_ITEM if team.per_item is None else team.per_item
        seniors = flow.seniors if team.qualification else 0
        create(db, Settings(flow.name, annotators, per_item, team.qualification or 0, seniors), items, flow.stages)
    store = Store(Database(db, alone=True), flow)
    try:
        settings = store.database.settings
        if settings.benchmark != flow.name:
            raise StoreError(f"{db}: holds labels of {settings.benchmark}, not of {flow.name}; give another --db")
        items = read_items(media_folder(db)) if items is None else items
        store.renew_items(items, where, skip_missing=skip_missing)
        fixed = {
            "--per-item": (team.per_item, settings.per_item),
            "--qualification": (team.qualification, settings.qualification),
        }
        for option, (number, stored) in fixed.items():
            if number not in (None, stored):
                raise StoreError(f"{option} {number}: {db} was made with {stored}, which stays; leave {option} out")
        if team.annotators is not None:
            store.add_annotators(team.annotators)
    except BaseException:
        store.close()
        raise
    return store


def serve(store: Store, host: str, port: int, *, cuts: bool = False, height: int = HEIGHT) -> None:
    """Print everyone's link and serve the page until the process is stopped.

    Args:
        cuts: make all clips first.
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
    folder = media_folder(store.database.path, height)
    if cuts:
        media = dict.fromkeys(part for item in store.items() for part in store.flow.form(item.shown).media)
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
    typer.echo(f"Labels are in {store.database.path}. Stop with Ctrl+C; the same command goes on.")
    # No log of requests: links are in it.
    page = make_app(store, folder, {host, socket.gethostname(), socket.getfqdn()})
    config = uvicorn.Config(page, log_level="warning", access_log=False, server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        store.close()
