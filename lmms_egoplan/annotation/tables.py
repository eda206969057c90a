"""Create the tables of a database of labels, and connect to it."""

import sqlite3
from pathlib import Path

# Increase when the tables change, and extend `conversion`.
FORMAT = 5
APPLICATION_ID = 0x4C45414E
_BUSY_S = 30.0
_TABLES = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection whose rows can be read by the names of their columns."""
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file. The transaction stays open."""
    connection.executescript(
        f"PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {FORMAT}; BEGIN; {_TABLES}"
    )


def check_whole(connection: sqlite3.Connection) -> None:
    """Check that a file is not damaged.

    Raises:
        sqlite3.DatabaseError: It is.
    """
    problems = [problem for (problem,) in connection.execute("PRAGMA quick_check(3)")]
    if problems != ["ok"]:
        raise sqlite3.DatabaseError(problems[0])
