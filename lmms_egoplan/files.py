"""Files on disk: safe paths, atomic writes, versions and locks."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import MANIFEST, check_own, with_path_in_error

_LOCK = ".lock"


def resolve_inside(root: str | Path, *parts: str) -> Path:
    """Join a folder with identifiers from untrusted data, and check that the path stays inside.

    Args:
        root: the folder. It may be a symlink, or below one.
        parts: nonempty relative paths without ``..`` and NUL.

    Returns:
        The absolute path with all symlinks resolved. It need not exist.

    Raises:
        LmmsEgoplanError: a part is another kind of path, or a symlink leads out of `root`.
    """
    for part in parts:
        if not _is_relative(part):
            raise LmmsEgoplanError(f"{part!r} must be a relative path inside {root}")
    try:
        base = Path(root).resolve()
        path = base.joinpath(*parts).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise LmmsEgoplanError(
            f"{'/'.join(parts)!r} must be a relative path inside {root}: {error}"
        ) from error
    if not path.is_relative_to(base):
        raise LmmsEgoplanError(
            f"{'/'.join(parts)!r} leads out of {root}, to {path}; replace the symlink "
            "with the data itself"
        )
    return path


def _is_relative(part: str) -> bool:
    """Return whether a text is a nonempty relative path without ``..`` and NUL."""
    path = Path(part)
    if not part.strip() or not path.parts or path.is_absolute():
        return False
    return "\0" not in part and ".." not in path.parts


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically; create its folder if needed.

    Raises:
        LmmsEgoplanError: see `outputs.check_own`.
        OSError: the file is not writable.
    """
    check_own(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        with_path_in_error(path),
        tempfile.TemporaryDirectory(prefix=f".{path.name[:100]}.", dir=path.parent) as folder,
    ):
        unfinished = Path(folder) / path.name
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        unfinished.replace(path)


def lock_file(path: Path) -> sqlite3.Connection | None:
    """Lock a file against other processes until the lock is closed or this process ends.

    Returns:
        The lock; None if another process has locked the file.

    Raises:
        OSError: the file is not writable, or is not a lock.
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
def lock_folder(folder: Path, doing: str) -> Iterator[None]:
    """Create a folder and lock it against other processes.

    The lock ends with the process, even if it is killed. The folder is removed at the end if
    nothing else was written to it.

    Args:
        doing: what a process does in the folder, for the message, such as ``builds``.

    Raises:
        LmmsEgoplanError: another process has locked the folder.
        OSError: the folder is not writable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    guard = lock_file(folder / _LOCK)
    if guard is None:
        raise LmmsEgoplanError(
            f"{folder} is in use: another process {doing} there. Wait until it has "
            "finished, or set another --out."
        )
    try:
        yield
    finally:
        guard.close()
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {_LOCK, MANIFEST}:
            (folder / _LOCK).unlink()
            if not any(folder.iterdir()):
                folder.rmdir()


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file's contents, in hexadecimal."""
    return sha256(path.read_bytes()).hexdigest()


def file_version(status: os.stat_result) -> str:
    """Return a file's version: its size in bytes and the time of its last change in nanoseconds."""
    return f"{status.st_size}-{status.st_mtime_ns}"
