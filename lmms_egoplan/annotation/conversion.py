"""Convert a database of format 4, which kept counts in triggers, to the present one."""

import filecmp
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from loguru import logger

from lmms_egoplan.annotation.tables import (
    APPLICATION_ID,
    FORMAT,
    check_whole,
    connect,
    create_tables,
)

OLD_FORMAT = 4
# Fields of a study that no longer exist.
_OLD_FIELDS = ("quota", "names", "limits", "apart")


def is_old(path: Path) -> bool:
    """Return whether a file is a database of format 4."""
    if not path.is_file():
        return False
    with closing(connect(path)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application == APPLICATION_ID and version == OLD_FORMAT


def convert(path: Path) -> None:
    """Replace a database of format 4 by a converted one, next to a copy of the original.

    The file is replaced at once: after a kill, it is the original or the converted one. The caller
    has locked the database.

    Raises:
        sqlite3.Error: The database is damaged, or cannot be read or written.
        OSError: A file cannot be written.
    """
    path = path.resolve()
    with (
        closing(connect(path)) as old,
        TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch,
    ):
        old.execute("PRAGMA journal_mode = DELETE")
        old.execute("BEGIN IMMEDIATE")  # Nobody writes until the end.
        check_whole(old)
        copy = _keep_original(path, Path(scratch))
        converted = Path(scratch) / "converted.sqlite"
        converted.touch(0o600)
        with closing(connect(converted)) as new:
            new.execute("ATTACH DATABASE :path AS old", {"path": str(path)})
            create_tables(new)
            dropped = _convert_settings(new)
            new.execute("COMMIT")
            _convert_rows(new)
            new.execute("DETACH DATABASE old")
        converted.replace(path)
    logger.warning(f"{path}: converted to format {FORMAT}. The original is in {copy}")
    if dropped:
        logger.warning(
            f"{path}: these fields of its study no longer exist: {', '.join(sorted(dropped))}"
        )


def _keep_original(path: Path, scratch: Path) -> Path:
    """Copy a database to a new name next to it, and return that name.

    A copy that an interrupted conversion has made is used again.
    """
    unfinished = scratch / "copy.sqlite"
    shutil.copy2(path, unfinished)
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    number = 1
    copy = path.with_name(f"{path.name}.format-{OLD_FORMAT}")
    while copy.exists() and not filecmp.cmp(unfinished, copy, shallow=False):
        number += 1
        copy = path.with_name(f"{path.name}.format-{OLD_FORMAT}-{number}")
    if not copy.exists():
        unfinished.rename(copy)
    return copy


def _convert_settings(connection: sqlite3.Connection) -> set[str]:
    """Copy the settings and the study, without `_OLD_FIELDS`. Return those that had a value."""
    dropped = set()
    for row in connection.execute("SELECT name, value FROM old.settings").fetchall():
        value = json.loads(row["value"])
        if row["name"] == "study":
            for part in [*value["people"].values(), *value["rounds"]]:
                for field in _OLD_FIELDS:
                    if part.pop(field, None):
                        dropped.add(field)
        connection.execute(
            "INSERT INTO settings (name, value) VALUES (:name, :value)",
            {"name": row["name"], "value": json.dumps(value)},
        )
    return dropped


def _convert_rows(connection: sqlite3.Connection) -> None:
    """Copy people, items, slots with their state, and every label."""
    connection.executescript("""
        BEGIN;
        INSERT INTO people SELECT name, role, team, token, called FROM old.people;
        INSERT INTO items SELECT position, id, part, shown, hidden, known, initial FROM old.items;
        INSERT INTO verdicts SELECT id, person, senior, passed, comment, at FROM old.verdicts;

        INSERT INTO samples
        SELECT places.stage, places.item FROM old.places AS places, settings, json_each(
            settings.value, '$.rounds'
        ) AS round
        WHERE settings.name = 'study' AND places.stage = json_extract(round.value, '$.name')
            AND json_extract(round.value, '$.sample') IS NOT NULL;

        INSERT INTO history
        SELECT id, slot, form, choices, comment, seconds, skipped, at FROM old.labels;

        INSERT INTO slots (id, item, stage, person, state, reason)
        SELECT id, item, stage, person,
            CASE
                WHEN released IS NOT NULL THEN 'released'
                WHEN skipped IS NOT NULL THEN 'skipped'
                WHEN label IS NOT NULL THEN 'labelled'
                ELSE 'open'
            END,
            skipped
        FROM old.slots;

        UPDATE slots SET last = saved.id, at = saved.at
        FROM history AS saved
        WHERE saved.id = (SELECT max(id) FROM history WHERE slot = slots.id);

        UPDATE slots SET "values" = saved."values", comment = saved.comment, seconds = saved.seconds
        FROM history AS saved
        WHERE saved.id = (
            SELECT max(id) FROM history WHERE slot = slots.id AND "values" IS NOT NULL
        );

        -- Only a label that sets an item aside makes a later round need none.
        UPDATE slots SET state = 'aside'
        WHERE state = 'labelled' AND item IN (SELECT item FROM old.places WHERE needed = 0)
            AND stage = (
                SELECT json_extract(value, '$.rounds[0].name') FROM settings WHERE name = 'study'
            );
        COMMIT;
    """)
