"""Create or open a database of labels and serve its page."""

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import typer

from lmms_egoplan.annotation.clips import HEIGHT, KeptImage, MediaFolder
from lmms_egoplan.annotation.database import QUERIES, Database, StoreError, create
from lmms_egoplan.annotation.flow import Flow, Item
from lmms_egoplan.annotation.forms import Choice, check_values
from lmms_egoplan.annotation.pages import stage_counts
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import (
    ANNOTATOR,
    GOLD,
    TRAINING,
    Study,
    check_study,
    default_study,
    read_known,
    read_study,
)
from lmms_egoplan.errors import LmmsEgoplanError

DEFAULT_ANNOTATORS, DEFAULT_PER_ITEM = 3, 2
# Number of labels from which their median time is used.
_FEWEST_TIMED = 10


class Team(NamedTuple):
    """Options on who labels what.

    None means the default of a new database, or the value of an existing one.

    Attributes:
        study: File or name of a study, as for `read_study`. It determines the other numbers.
        more: Whether to add items that an existing database does not contain.
    """

    annotators: int | None = None
    per_item: int | None = None
    qualification: int | None = None
    study: str | None = None
    more: bool = False


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
        read_items: Reads the current items. They must equal the items of the database, except for
            `Item.changing`. Not called if the database is unusable.
        skip_missing: Accept a subset of the items, since media may have been removed or added.
        where: File name of the items, for messages.

    Raises:
        LmmsEgoplanError: The items are invalid or have changed, or the database is unusable.
    """
    numbers = {
        "--annotators": team.annotators,
        "--per-item": team.per_item,
        "--qualification": team.qualification,
    }
    if team.study and (options := [name for name, number in numbers.items() if number is not None]):
        raise LmmsEgoplanError(
            f"{options[0]}: the study determines this number; change it there, or drop --study"
        )
    study = read_study(team.study) if team.study else None
    items = None
    if not db.exists():
        items = read_items(media_folder(db))
        new = study or _default_study(flow, team)
        parts, items = _with_known(new, flow, items)
        check_study(new, flow.name, flow.stages, len(items) - len(parts))
        create(db, new, items, parts)
    store = Store(Database(db, exclusive=True), flow)
    try:
        stored = store.database.study
        if stored.flow != flow.name:
            raise StoreError(
                f"{db}: contains labels of {stored.flow}, not of {flow.name}; use another --db"
            )
        items = read_items(media_folder(db)) if items is None else items
        fixed = {
            "--per-item": (
                None if flow.stages[0].per_item else team.per_item,
                stored.rounds[0].per_item,
            ),
            "--qualification": (team.qualification, stored.qualification),
            "--annotators": (None if ANNOTATOR in stored.people else team.annotators, "a study"),
        }
        for option, (number, value) in fixed.items():
            if number not in (None, value):
                raise StoreError(
                    f"{option} {number}: {db} was created with {value}, which is fixed; "
                    f"drop {option}"
                )
        if study:
            check_study(
                study, flow.name, flow.stages, sum(item.known is None for item in store.items())
            )
            if _fixed(study, _with_known(study, flow, store.items())[1]) != _fixed(
                stored, store.items()
            ):
                raise StoreError(
                    f"--study {team.study}: {db} has another study or known values; "
                    "change only people"
                )
        added = store.renew_items(items, where, skip_missing=skip_missing, more=team.more)
        if team.more:
            typer.echo(f"Items added: {added}")
        if study:
            store.change_people(study.people)
        elif team.annotators is not None:
            group = stored.people[ANNOTATOR].model_copy(update={"count": team.annotators})
            store.change_people({**stored.people, ANNOTATOR: group})
    except BaseException:
        store.close()
        raise
    return store


def _fixed(study: Study, items: Sequence[Item]) -> Any:
    """Return what cannot change in a study, with the known values of its items instead of their
    files.
    """
    fixed = study.model_dump(exclude={"people": True, "training": True, "gold": {"labels"}})
    return fixed, {*study.people}, [(item.id, item.known) for item in items if item.known]


def _default_study(flow: Flow, team: Team) -> Study:
    numbers = (
        team.annotators or DEFAULT_ANNOTATORS,
        team.per_item or DEFAULT_PER_ITEM,
        team.qualification or 0,
    )
    study = default_study(flow.name, flow.stages, *numbers)
    return study.model_copy(update={"seniors": flow.seniors if team.qualification else 0})


def _with_known(
    study: Study, flow: Flow, items: Sequence[Item]
) -> tuple[dict[str, str], list[Item]]:
    """Return the parts of training and gold items, and all items, with the known values.

    Raises:
        LmmsEgoplanError: A known value fits no item or field, an item has two parts, or limits name
            no option.
    """
    first = study.rounds[0]
    limits = [
        limit
        for name, group in study.people.items()
        if name == first.people
        for limit in group.limits
    ]
    forms = [flow.form(item.contents, (), 0, first.name) for item in (items if limits else ())]
    choices = [field for form in forms for field in form.fields if isinstance(field, Choice)]
    options = {(field.name, one.value) for field in choices for one in field.options}
    allowed = {
        (name, value) for limit in limits for name, values in limit.items() for value in values
    }
    for name, value in sorted(allowed - options):
        raise LmmsEgoplanError(
            f"study: people, {first.people}, limits, {name}: there is no option {value!r}"
        )
    parts: dict[str, str] = {}
    known: dict[str, dict[str, Any]] = {}
    by_id = {item.id: item for item in items}
    for part, path in ((TRAINING, study.training), (GOLD, study.gold and study.gold.labels)):
        for name, values in (read_known(path) if path else {}).items():
            where = f"{path}, {name}"
            if name not in by_id or name in parts:
                problem = (
                    f"is also in {study.training}" if name in parts else "is not one of the items"
                )
                raise LmmsEgoplanError(f"{where}: {problem}; remove the line")
            check_values(flow.form(by_id[name].contents, (), 0, first.name), values, where)
            parts[name], known[name] = part, values
    return parts, [replace(item, known=known.get(item.id)) for item in items]


def plan(store: Store) -> Iterator[str]:
    """Yield how many labels, people and hours each round still needs.

    Hours follow from the median seconds per label.

    Seconds are those measured in the database if there are `_FEWEST_TIMED` labels, else those in
    the study file.
    """
    study, all_hours = store.database.study, []
    counts = [*stage_counts(store.labelled(), store)][-len(study.rounds) :]
    for one, (title, number, needed) in zip(study.rounds, counts, strict=True):
        times = [seconds for (seconds,) in store.database.rows(QUERIES["timed"], one.name)]
        people, missing = study.people[one.people].count, needed - number
        seconds = median(times) if len(times) >= _FEWEST_TIMED else one.seconds
        hours = f"hours unknown until {_FEWEST_TIMED} labels are timed"
        if seconds is not None:
            all_hours.append(missing * seconds / 3600)
            hours = (
                f"{all_hours[-1]:,.1f} hours at {seconds:.1f} s per label ({len(times):,} timed)"
            )
        each = f"{one.people}s: {people}, with {missing / people:,.0f} more labels each"
        yield f"{title}: {number:,} of {needed:,} labels; {each}; {hours}"
    for part, number in store.database.rows(QUERIES["parts"]):
        yield (
            f"{part.capitalize()}: {number:,} items, each labelled by all {study.learners} "
            f"{study.rounds[0].people}s"
        )
    for name, group in study.people.items():
        needed = sum(
            each
            for one, (_, _, each) in zip(study.rounds, counts, strict=True)
            if one.people == name
        )
        if group.quota and (allowed := group.quota * group.count) < needed:
            yield (
                f"The quota of the {name}s allows {allowed:,} of {needed:,} labels; raise "
                "quota or count"
            )
    if len(all_hours) == len(study.rounds):
        yield f"In all: {sum(all_hours):,.1f} hours of labelling"


def listen(host: str, port: int) -> socket.socket:
    """Listen on a host and port, and send every response at once.

    Without TCP_NODELAY, a response that is written in two parts waits for the client's delayed
    acknowledgement, 40 ms. asyncio sets it only on sockets that were created with the protocol TCP,
    which `create_server` does not name.

    Raises:
        LmmsEgoplanError: The address cannot be used.
    """
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise LmmsEgoplanError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another "
            "--port or --host"
        ) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


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
    listening = listen(host, port)
    folder = media_folder(store.database.path, height)
    if cuts:
        first = store.database.study.rounds[0].name
        media = dict.fromkeys(
            part
            for item in store.items()
            for part in store.flow.form(item.contents, (), 0, first).media
        )
        created = [part for part in media if not isinstance(part, KeptImage)]
        problems = folder.make_all(created)
        typer.echo(
            f"Pictures and clips: {len(created):,}. {len(problems)} cannot be shown; "
            "annotators can skip them."
        )
        for problem in dict.fromkeys(problems):
            typer.echo(f"  {problem}")
    for line in plan(store):
        typer.echo(line)
    name = f"[{host}]" if ":" in host else socket.gethostname() if host == "0.0.0.0" else host
    typer.echo("Give each person their own link. Anyone with a link can label under its name.")
    for person in store.people():
        link = "closed" if person.is_closed else f"http://{name}:{port}/enter/{person.token}"
        typer.echo(f"  {person.title}: {link}")
    typer.echo(
        f"Labels are in {store.database.path}. Stop with Ctrl+C. To resume, repeat the command."
    )
    # Do not log requests: they contain links.
    page = make_app(store, folder, {host, socket.gethostname(), socket.getfqdn()})
    config = uvicorn.Config(page, log_level="warning", access_log=False, server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        store.close()
