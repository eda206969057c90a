"""Create or open a database of labels and serve its page."""

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import typer

from lmms_egoplan.annotation.clips import HEIGHT, KeptImage, Media, MediaFolder
from lmms_egoplan.annotation.database import Database, StoreError, create
from lmms_egoplan.annotation.flow import Flow, Item
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.forms import check_values
from lmms_egoplan.annotation.pages import stage_counts
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import (
    ANNOTATOR,
    GOLD,
    TRAINING,
    Round,
    Study,
    check_study,
    default_study,
    read_known,
    read_study,
)
from lmms_egoplan.errors import LmmsEgoplanError

DEFAULT_ANNOTATORS = 3
DEFAULT_PER_ITEM = 2
# Number of labels from which their median time is used.
_FEWEST_TIMED = 10


@dataclass(frozen=True, slots=True)
class Team:
    """Options on who labels what.

    None means the default of a new database, or the value of an existing one.

    Attributes:
        study: File or name of a study, as for `read_study`. It determines the other numbers.
        more: Whether to add items that an existing database does not contain.
        renew: Names of people whose links are replaced.
    """

    annotators: int | None = None
    per_item: int | None = None
    qualification: int | None = None
    study: str | None = None
    more: bool = False
    renew: Sequence[str] = ()


def media_folder(db: Path, height: int = HEIGHT) -> MediaFolder:
    """Return the media folder next to a database; symbolic links are resolved."""
    db = db.resolve()
    return MediaFolder(db.with_name(f"{db.name}.media"), height)


def create_store(
    flow: Flow, db: Path, read_items: Callable[[MediaFolder], Sequence[Item]], team: Team
) -> Store:
    """Create a database and open it for a server.

    Args:
        read_items: Reads the items.

    Raises:
        LmmsEgoplanError: The items or the study are invalid, or the file exists.
    """
    _check_options(team)
    if team.renew:
        raise LmmsEgoplanError(f"--renew: {db} does not exist, so it has no links; drop --renew")
    study = read_study(team.study) if team.study else _default_study(flow, team)
    items = read_items(media_folder(db))
    parts, items_with_known = _with_known(study, flow, items)
    check_study(study, flow.name, flow.stages, len(items) - len(parts))
    create(db, study, items_with_known, parts)
    return Store(Database(db, exclusive=True), flow)


def reopen_store(
    flow: Flow,
    db: Path,
    read_items: Callable[[MediaFolder], Sequence[Item]],
    where: str,
    team: Team,
    *,
    skip_missing: bool = False,
) -> Store:
    """Open an existing database for a server.

    Args:
        read_items: Reads the current items. They must equal the items of the database, except for
            `Item.changing`. Not called if the database is unusable.
        where: File name of the items, for messages.
        skip_missing: Accept a subset of the items, since media may have been removed or added.

    Raises:
        LmmsEgoplanError: The items are invalid or have changed, or the database is unusable.
    """
    _check_options(team)
    study = read_study(team.study) if team.study else None
    store = Store(Database(db, exclusive=True), flow)
    try:
        _check_flow(store, flow)
        items = read_items(media_folder(db))
        _check_fixed_numbers(store, flow, team)
        if study:
            _check_same_study(store, flow, study, team)
        added = store.renew_items(items, where, skip_missing=skip_missing, more=team.more)
        if team.more:
            typer.echo(f"Items added: {added}")
        _update_people(store, study, team)
    except BaseException:
        store.close()
        raise
    return store


def open_existing(db: Path, *, exclusive: bool = False) -> Store:
    """Open a database that exists.

    Args:
        db: The database.
        exclusive: Whether no other process may use it, as for a server.

    Raises:
        LmmsEgoplanError: The database is unusable, or contains labels of an unknown flow.
    """
    database = Database(db, exclusive=exclusive)
    name = database.study.flow
    if name not in FLOWS:
        raise LmmsEgoplanError(
            f"{db}: contains labels of {name!r}, which this version does not support"
        )
    return Store(database, FLOWS[name])


def _check_options(team: Team) -> None:
    """Refuse numbers next to a study, which determines them."""
    if not team.study:
        return
    numbers = {
        "--annotators": team.annotators,
        "--per-item": team.per_item,
        "--qualification": team.qualification,
    }
    for option, number in numbers.items():
        if number is not None:
            raise LmmsEgoplanError(
                f"{option}: the study determines this number; change it there, or drop --study"
            )


def _check_flow(store: Store, flow: Flow) -> None:
    """Check that a database contains labels of this flow."""
    stored = store.database.study.flow
    if stored != flow.name:
        raise StoreError(
            f"{store.database.path}: contains labels of {stored}, not of {flow.name}; use another "
            "--db"
        )


def _check_fixed_numbers(store: Store, flow: Flow, team: Team) -> None:
    """Refuse numbers that differ from those with which a database was created."""
    stored = store.database.study
    if not flow.stages[0].per_item:
        _check_fixed(store, "--per-item", team.per_item, stored.rounds[0].per_item)
    _check_fixed(store, "--qualification", team.qualification, stored.qualification)
    if ANNOTATOR not in stored.people:
        _check_fixed(store, "--annotators", team.annotators, "a study")


def _check_fixed(store: Store, option: str, number: int | None, stored: int | str) -> None:
    if number not in (None, stored):
        raise StoreError(
            f"{option} {number}: {store.database.path} was created with {stored}, which is fixed; "
            f"drop {option}"
        )


def _check_same_study(store: Store, flow: Flow, study: Study, team: Team) -> None:
    """Check that a study differs from that of a database only in its people."""
    items = store.items()
    num_items = sum(item.known is None for item in items)
    check_study(study, flow.name, flow.stages, num_items)
    _, items_with_known = _with_known(study, flow, items)
    if _fixed(study, items_with_known) != _fixed(store.database.study, items):
        raise StoreError(
            f"--study {team.study}: {store.database.path} has another study or known values; "
            "change only people and stop_after_errors"
        )


def _update_people(store: Store, study: Study | None, team: Team) -> None:
    """Add people, replace links and change `Gold.stop_after_errors`, as the options demand."""
    store.renew_links(team.renew)
    if study:
        store.change_people(study.people, study.gold)
    elif team.annotators is not None:
        people = store.database.study.people
        group = people[ANNOTATOR].model_copy(update={"count": team.annotators})
        store.change_people({**people, ANNOTATOR: group})


def _fixed(study: Study, items: Sequence[Item]) -> Any:
    """Return what cannot change in a study.

    The known values of the items take the place of their files.
    """
    changeable = {"labels", "stop_after_errors"}
    fixed = study.model_dump(exclude={"people": True, "training": True, "gold": changeable})
    return fixed, {*study.people}, [(item.id, item.known) for item in items if item.known]


def _default_study(flow: Flow, team: Team) -> Study:
    study = default_study(
        flow.name,
        flow.stages,
        team.annotators or DEFAULT_ANNOTATORS,
        team.per_item or DEFAULT_PER_ITEM,
        team.qualification or 0,
    )
    return study.model_copy(update={"seniors": flow.seniors if team.qualification else 0})


def _with_known(
    study: Study, flow: Flow, items: Sequence[Item]
) -> tuple[dict[str, str], list[Item]]:
    """Return the parts of training and gold items, and all items, with the known values.

    Raises:
        LmmsEgoplanError: A known value fits no item or field, or an item has two parts.
    """
    first = study.rounds[0]
    files = {TRAINING: study.training, GOLD: study.gold.labels if study.gold else None}
    parts: dict[str, str] = {}
    known: dict[str, dict[str, Any]] = {}
    by_id = {item.id: item for item in items}
    for part, path in files.items():
        if not path:
            continue
        for item_id, values in read_known(path).items():
            where = f"{path}, {item_id}"
            if item_id not in by_id:
                raise LmmsEgoplanError(f"{where}: is not one of the items; remove the line")
            if item_id in parts:
                raise LmmsEgoplanError(f"{where}: is also in {study.training}; remove the line")
            check_values(flow.form(by_id[item_id].contents, (), 0, first.name), values, where)
            parts[item_id] = part
            known[item_id] = values
    return parts, [replace(item, known=known.get(item.id)) for item in items]


def plan(store: Store) -> Iterator[str]:
    """Yield how many labels, people and hours each round still needs.

    Hours follow from the median seconds per label.

    Seconds are those measured in the database if there are `_FEWEST_TIMED` labels, else those in
    the study file.
    """
    study = store.database.study
    counts = [*stage_counts(store.labelled(), store)][-len(study.rounds) :]
    all_hours = []
    for round_, (title, number, needed) in zip(study.rounds, counts, strict=True):
        missing = needed - number
        people = study.people[round_.people].count
        share = f"{round_.people}s: {people}, with {missing / people:,.0f} more labels each"
        num_timed, seconds = _seconds_per_label(store, round_)
        if seconds is None:
            time = f"hours unknown until {_FEWEST_TIMED} labels are timed"
        else:
            hours = missing * seconds / 3600
            all_hours.append(hours)
            time = f"{hours:,.1f} hours at {seconds:.1f} s per label ({num_timed:,} timed)"
        yield f"{title}: {number:,} of {needed:,} labels; {share}; {time}"
    yield from _plan_of_parts(store)
    if len(all_hours) == len(study.rounds):
        yield f"In all: {sum(all_hours):,.1f} hours of labelling"


def _seconds_per_label(store: Store, round_: Round) -> tuple[int, float | None]:
    """Return the number of timed labels of a round, and the seconds per label; None if unknown."""
    rows = store.database.rows(
        "SELECT seconds FROM labelled WHERE stage = :stage AND seconds IS NOT NULL",
        {"stage": round_.name},
    )
    if len(rows) < _FEWEST_TIMED:
        return len(rows), round_.seconds
    return len(rows), median(row["seconds"] for row in rows)


def _plan_of_parts(store: Store) -> Iterator[str]:
    """Yield the number of training, qualification and gold items."""
    study = store.database.study
    people = f"{study.learners} {study.rounds[0].people}s"
    rows = store.database.rows(
        "SELECT part, count(*) AS number FROM items WHERE part != 'main' GROUP BY part"
    )
    for row in rows:
        items = f"{row['part'].capitalize()}: {row['number']:,} items"
        if row["part"] == GOLD:
            yield f"{items}, {_num_gold(store):,} labels if all {people} label the same number"
        else:
            yield f"{items}, each labelled by all {people}"


def _num_gold(store: Store) -> int:
    """Return the number of labels of gold items if all learners label the same number of others."""
    study = store.database.study
    group = study.rounds[0].people
    totals = store.totals()
    needed = sum(totals.get(round_.name, 0) for round_ in study.rounds if round_.people == group)
    fewest, num_with_one_more = divmod(needed, study.learners)
    number = 0
    for index in range(study.learners):
        num_main = fewest + (index < num_with_one_more)
        number += store.assignments.gold.num_asked(f"{group}-{index + 1}", num_main)
    return number


def listen(host: str, port: int) -> socket.socket:
    """Listen on a host and port, and send every response at once.

    Without TCP_NODELAY, a response that is written in two parts waits for the client's delayed
    acknowledgement, 40 ms. asyncio sets it only on sockets that were created with the protocol TCP,
    which `create_server` does not name.

    Raises:
        LmmsEgoplanError: The address cannot be used.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
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
        _cut_first(store, folder)
    for line in plan(store):
        typer.echo(line)
    name = _link_host(host)
    typer.echo("Give each person their own link. Anyone with a link can label under its name.")
    for person in store.people():
        typer.echo(f"  {person.title}: http://{name}:{port}/enter/{person.token}")
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


def _cut_first(store: Store, folder: MediaFolder) -> None:
    """Create the clips of the first round, and print the problems."""
    first = store.database.study.rounds[0].name
    media: dict[Media, None] = {}
    for item in store.items():
        media |= dict.fromkeys(store.flow.form(item.contents, (), 0, first).media)
    created = [part for part in media if not isinstance(part, KeptImage)]
    problems = folder.make_all(created)
    typer.echo(
        f"Pictures and clips: {len(created):,}. {len(problems)} cannot be shown; "
        "annotators can skip them."
    )
    for problem in dict.fromkeys(problems):
        typer.echo(f"  {problem}")


def _link_host(host: str) -> str:
    """Return the host of the personal links."""
    if ":" in host:
        return f"[{host}]"
    if host == "0.0.0.0":
        return socket.gethostname()
    return host
