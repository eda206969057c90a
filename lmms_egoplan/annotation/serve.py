"""Create or open a database of labels and serve its page."""

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
    """Team sizes, as in `Settings`. None means the default of a new database, or the value of an existing one."""

    annotators: int | None = None
    per_item: int | None = None
    qualification: int | None = None


def media_folder(db: Path, height: int = HEIGHT) -> MediaFolder:
    """Return the media folder next to a database; symbolic links are resolved."""
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
    """Open a database for a server; create it if missing.

    Args:
        read_items: Reads the current items. They must equal the items of the database, except for `Item.changing`. Not
            called if the database is unusable.
        skip_missing: Accept a subset of the items, since media may have been removed or added.
        where: File name of the items, for messages.

    Raises:
        LmmsEgoplanError: The items are invalid or have changed, or the database is unusable.
    """
    items = None
    if not db.exists():
        items = read_items(media_folder(db))
        annotators = DEFAULT_ANNOTATORS if team.annotators is None else team.annotators
        per_item = DEFAULT_PER_ITEM if team.per_item is None else team.per_item
        seniors = flow.seniors if team.qualification else 0
        create(db, Settings(flow.name, annotators, per_item, team.qualification or 0, seniors), items, flow.stages)
    store = Store(Database(db, exclusive=True), flow)
    try:
        settings = store.database.settings
        if settings.benchmark != flow.name:
            raise StoreError(f"{db}: contains labels of {settings.benchmark}, not of {flow.name}; use another --db")
        items = read_items(media_folder(db)) if items is None else items
        store.renew_items(items, where, skip_missing=skip_missing)
        fixed = {
            "--per-item": (team.per_item, settings.per_item),
            "--qualification": (team.qualification, settings.qualification),
        }
        for option, (number, stored) in fixed.items():
            if number not in (None, stored):
                raise StoreError(f"{option} {number}: {db} was created with {stored}, which is fixed; drop {option}")
        if team.annotators is not None:
            store.add_annotators(team.annotators)
    except BaseException:
        store.close()
        raise
    return store


def serve(store: Store, host: str, port: int, *, cuts: bool = False, height: int = HEIGHT) -> None:
    """Print all personal links and serve the page until the process is stopped.

    Args:
        cuts: Create all clips first.
        height: Maximum height of clips, pixels.

    Raises:
        LmmsEgoplanError: The server's packages are missing, or the port is in use.
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
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another --port or --host"
        ) from error
    folder = media_folder(store.database.path, height)
    if cuts:
        media = dict.fromkeys(part for item in store.items() for part in store.flow.form(item.contents).media)
        created = [part for part in media if not isinstance(part, KeptImage)]
        problems = folder.make_all(created)
        typer.echo(f"Pictures and clips: {len(created):,}. {len(problems)} cannot be shown; annotators can skip them.")
        for problem in dict.fromkeys(problems):
            typer.echo(f"  {problem}")
    name = f"[{host}]" if ":" in host else socket.gethostname() if host == "0.0.0.0" else host
    typer.echo("Give each person their own link. Anyone with a link can label under its name.")
    for person in store.people():
        link = "closed" if person.is_closed else f"http://{name}:{port}/enter/{person.token}"
        typer.echo(f"  {person.title}: {link}")
    typer.echo(f"Labels are in {store.database.path}. Stop with Ctrl+C. To resume, repeat the command.")
    # Do not log requests: they contain links.
    page = make_app(store, folder, {host, socket.gethostname(), socket.getfqdn()})
    config = uvicorn.Config(page, log_level="warning", access_log=False, server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        store.close()
