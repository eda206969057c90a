"""Files on disk: paths that stay inside a folder, writing whole or not at all, versions, locks."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import MANIFEST, check_own, naming

_LOCK = ".lock"


def resolve_inside(root: str | Path, *parts: str) -> Path:
    """Join identifiers from other people's data to a folder, which the result cannot leave.

    Args:
        root: the folder; may itself be reached through a symlink.
        parts: relative, not empty, without ``..`` and NUL.

    Returns:
        The absolute path with all symlinks resolved; it need not exist.

    Raises:
        LmmsEgoplanError: a part is not as above, or a symlink on the way leads out of `root`.
    """
    for part in parts:
        pure = Path(part)
        if not part.strip() or not pure.parts or "\0" in part or pure.is_absolute() or ".." in pure.parts:
            raise LmmsEgoplanError(f"{part!r} is not a name of something inside {root}")
    try:
        base = Path(root).resolve()
        path = base.joinpath(*parts).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise LmmsEgoplanError(f"{'/'.join(parts)!r} is not a name of something inside {root}: {error}") from error
    if not path.is_relative_to(base):
        raise LmmsEgoplanError(
            f"{'/'.join(parts)!r} leads out of {root}, to {path}; put the data itself there, not a symlink"
        )
    return path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that appears whole or not at all; create its folder if needed.

    Raises:
        LmmsEgoplanError: see `outputs.check_own`.
        OSError: the file cannot be written.
    """
    check_own(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), tempfile.TemporaryDirectory(prefix=f".{path.name[:100]}.", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        unfinished.replace(path)


def hold(path: Path) -> sqlite3.Connection | None:
    """Lock a file against other processes, until the lock is closed or this process ends.

    Returns:
        The lock; None if another process holds it.

    Raises:
        OSError: the file cannot be written, or is not a lock.
    """
    try:
        lock = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            return None
        raise OSError(f"{path}: cannot be locked: {error}") from error
    return lock


@contextmanager
def only_process(folder: Path, doing: str) -> Iterator[None]:
    """Make a folder, and keep other processes off it; the lock ends with the process, however that ends.

    A folder in which nothing else was written is removed at the end.

    Args:
        doing: what a process does there, for the message.

    Raises:
        LmmsEgoplanError: another process does it.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    guard = hold(folder / _LOCK)
    if guard is None:
        raise LmmsEgoplanError(f"another process {doing} in {folder}; wait for its end, or give another --out")
    try:
        yield
    finally:
        guard.close()
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {_LOCK, MANIFEST}:
            (folder / _LOCK).unlink()
            if not any(folder.iterdir()):
                folder.rmdir()


def file_version(status: os.stat_result) -> str:
    """Name a file's version by its size in bytes and the time of its last change in nanoseconds."""
    return f"{status.st_size}-{status.st_mtime_ns}"
