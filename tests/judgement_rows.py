"""Read the judgement cache like another process."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from lmms_egoplan.judging.cache import default_cache_path
from patience import FOREVER_S


def num_stored(path: Path) -> int:
    """Return the number of judgements in the cache at `path`; 0 if it does not exist."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=FOREVER_S)) as database:
        tables = database.execute(
            "SELECT name FROM sqlite_master WHERE name = 'judgements'"
        ).fetchall()
        return database.execute("SELECT count(*) FROM judgements").fetchone()[0] if tables else 0


def select(columns: str, table: str) -> list[tuple[Any, ...]]:
    """Return some columns of a table of the default cache."""
    with closing(sqlite3.connect(default_cache_path(), timeout=FOREVER_S)) as database:
        return database.execute(f"SELECT {columns} FROM {table}").fetchall()
