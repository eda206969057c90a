"""Store outputs in files that can be compared: texts as they are, other files by their digest."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

STORED = "stored"
_LARGEST_TEXT = 2_000_000
# Files that a program writes for itself.
_IGNORED_SUFFIXES = (".lock", "-wal", "-shm", "-journal", ".pyc")
_TEXTS = (".csv", ".html", ".js", ".json", ".jsonl", ".log", ".md", ".svg", ".txt")
_SQLITE = b"SQLite format 3\0"


def stored_folder() -> Path:
    """Return the folder of the stored outputs, next to the folder in which cases run."""
    import os

    return Path(os.environ["LMMS_EGOPLAN_DATA"]).parents[1] / STORED


def store_text(name: str, text: str) -> None:
    """Store a text. Characters that UTF-8 cannot encode are escaped."""
    path = stored_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def store_folder(name: str, folder: Path) -> None:
    """Store all files of a folder, and the list of their names."""
    digests = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if path.is_symlink():
            digests.append(f"{relative} -> {path.readlink()}")
        elif path.is_file() and not _is_ignored(path):
            content = _content(path)
            text = _text(content, path.suffix)
            if text is None:
                digests.append(f"{relative} {len(content)} {hashlib.sha256(content).hexdigest()}")
            else:
                store_text(f"{name}/{relative}", text)
        elif path.is_dir() and not any(path.iterdir()):
            digests.append(f"{relative}/")
    if digests:
        store_text(f"{name}/digests.txt", "\n".join(digests) + "\n")


def _is_ignored(path: Path) -> bool:
    is_cache = path.name.startswith("cache-") and path.suffix == ".arrow"
    return is_cache or path.name.endswith(_IGNORED_SUFFIXES)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"unreadable: {type(error).__name__}".encode()
    return _dump(path).encode() if content.startswith(_SQLITE) else content


def _text(content: bytes, suffix: str) -> str | None:
    has_zero = b"\0" in content and suffix not in _TEXTS
    if len(content) > _LARGEST_TEXT or has_zero:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _dump(path: Path) -> str:
    """Return a database's schema and rows, sorted."""
    lines = []
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            schema = database.execute(
                "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
            )
            for kind, name, sql in schema.fetchall():
                lines.append(f"{kind} {name}: {' '.join(sql.split())}")
                if kind == "table":
                    rows = database.execute(f'SELECT * FROM "{name}"').fetchall()
                    lines += sorted(f"{name}: {row!r}" for row in rows)
    except sqlite3.Error as error:
        lines.append(f"{type(error).__name__}: {error}")
    return "\n".join(lines) + "\n"
