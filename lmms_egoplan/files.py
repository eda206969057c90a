"""Files on disk: safe paths, atomic writes, versions and locks."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.volumes import UNFINISHED, with_path_in_error

LOCK = ".lmms-egoplan.lock"
"""Name of the file that locks a folder."""

Guard = Callable[[Path, Path], bool]
"""Function of the temporary and the final path of a file or folder, called before it is renamed.

It raises an error to refuse the final path, and returns false for paths that it does not guard.
"""

# The innermost guard is the last one.
_guards: list[Guard] = []


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


@contextmanager
def guarded_by(guard: Guard) -> Iterator[None]:
    """Let a function check every file that `whole_file` and `whole_folder` write."""
    _guards.append(guard)
    try:
        yield
    finally:
        _guards.remove(guard)


def _check_guards(unfinished: Path, path: Path) -> None:
    """Ask the innermost guard of a path whether it may be replaced."""
    for guard in reversed(_guards):
        if guard(unfinished, path):
            return


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path of the same name, and rename it to `path` at the end.

    A reader sees the previous file or the new one, and after an error or a kill the previous one.

    Raises:
        LmmsEgoplanError: the command may not replace this file; see `outputs`.
        OSError: the file is not writable.
    """
    with with_path_in_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=UNFINISHED, dir=path.parent) as scratch:
            unfinished = Path(scratch) / path.name
            yield unfinished
            _check_guards(unfinished, path)
            unfinished.replace(path)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically; create its folder if needed. See `whole_file`.

    Raises:
        LmmsEgoplanError: the command may not replace this file; see `outputs`.
        OSError: the file is not writable.
    """
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder of the same name, and replace `path` by it at the end.

    If the new folder stays empty, `path` is removed.

    Raises:
        LmmsEgoplanError: the command may not replace a file in this folder; see `outputs`.
        OSError: the folder is not writable.
    """
    with with_path_in_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=UNFINISHED, dir=path.parent) as scratch:
            unfinished = Path(scratch) / path.name
            former = Path(scratch) / f"{path.name}.former"
            unfinished.mkdir()
            yield unfinished
            _check_guards(unfinished, path)
            if path.exists():
                path.replace(former)
            if not any(unfinished.iterdir()):
                return
            try:
                unfinished.replace(path)
            except OSError:
                if former.exists():
                    former.replace(path)
                raise


@contextmanager
def lock_file(path: Path) -> Iterator[bool]:
    """Lock a file against other processes, and against other locks of this process.

    The lock ends with the process, even if it is killed.

    Yields:
        False if another process has locked the file.

    Raises:
        OSError: the file is not writable, or its file system has no locks.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    class OwnLock(FileLock):
        """A lock that a second one of this process respects.

        After an evaluation, lmms-eval returns the same `FileLock` for the same path.
        """

    path.touch()  # FileLock would create its folder, too.
    lock = OwnLock(path, timeout=0, thread_local=False)  # Any thread may release it.
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except NotImplementedError as error:
        raise OSError(f"{path}: cannot be locked: {error}") from error
    try:
        if isinstance(lock, SoftFileLock):  # filelock's substitute, which survives a kill
            raise OSError(f"{path}: cannot be locked; set a folder on a file system with locks")
        yield True
    finally:
        lock.release()


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes. See `lock_file`.

    Raises:
        LmmsEgoplanError: another process has locked the folder.
        OSError: the folder does not exist, is not writable, or cannot be locked.
    """
    with lock_file(folder / LOCK) as is_locked:
        if not is_locked:
            raise LmmsEgoplanError(
                f"{folder} is in use by another process; wait until it has finished, or set "
                "another --out"
            )
        yield


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file's contents, in hexadecimal."""
    return sha256(path.read_bytes()).hexdigest()


def file_version(status: os.stat_result) -> str:
    """Return a file's version: its size in bytes and the time of its last change in nanoseconds."""
    return f"{status.st_size}-{status.st_mtime_ns}"
