"""Name the file in errors of the operating system, and the volume if it is full or read-only."""

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError

UNFINISHED = ".lmms-egoplan.unfinished."
"""Prefix of temporary folders. Those of killed processes remain."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# Messages of libraries whose errors have no number: safetensors, torch, SQLite.
_FULL_TEXTS = (
    "No space left",
    "StorageFull",
    "disk is full",
    "File too large",
    "FileTooLarge",
    "inline_container",
    "PytorchStreamWriter",
)
_ANOTHER = {errno.EISDIR: "is a folder; pass a file", errno.ENOTDIR: "is not a folder"}


@contextmanager
def with_path_in_error(path: Path) -> Iterator[None]:
    """Add this path to write errors that name no file or a temporary file."""
    try:
        yield
    except OSError as error:
        name = error.filename
        if name is None:
            is_vague = error.errno in (*_FULL, errno.EIO)
        else:
            is_vague = UNFINISHED in str(name) or str(name).startswith(f"{path}{os.sep}")
        if not is_vague:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error
    except Exception as error:
        if is_full(error):
            raise OSError(errno.ENOSPC, str(error).splitlines()[0], str(path)) from error
        raise


@contextmanager
def with_volume_in_error(out: Path) -> Iterator[None]:
    """Explain errors about full volumes.

    Args:
        out: Path for errors that name no file.

    Raises:
        LmmsEgoplanError: A file cannot be written. The message names it and its volume.
    """
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        file = Path(getattr(error, "filename", None) or out).absolute()
        raise LmmsEgoplanError(f"{_problem(file, error)}, or set another --out") from error


def is_full(error: Exception) -> bool:
    """Return whether an error means a full or read-only volume.

    Some libraries have errors without a number; these are recognised by their message.
    """
    if isinstance(error, LmmsEgoplanError):
        return False  # It already names the file.
    if getattr(error, "errno", None) in _FULL:
        return True
    message = str(error)
    return any(text in message for text in _FULL_TEXTS)


def explain(error: Exception, prepared: Path | None) -> str:
    """Describe an error of the operating system, or about a full volume, in one line.

    It names the file. If a volume is full or read-only, it names the volume and its free space.

    Args:
        error: The error.
        prepared: Root folder of the prepared data; None if it is not set.
    """
    name = getattr(error, "filename", None)
    number = getattr(error, "errno", None)
    if name is None:
        if is_full(error):
            return _problem(_path_on_fullest_volume(prepared), error)
        return _reason(error)
    file = Path(os.fsdecode(name))
    if is_full(error):
        problem = _problem(file.absolute(), error)
    else:
        problem = f"{file}: {_ANOTHER.get(number or 0, _reason(error))}"
    if prepared is not None and _is_above_or_below(file.absolute(), prepared.absolute()):
        return f"{problem}. LMMS_EGOPLAN_DATA sets the folder of the prepared data"
    return problem


def _is_above_or_below(path: Path, other: Path) -> bool:
    return path.is_relative_to(other) or other.is_relative_to(path)


def _problem(file: Path, error: Exception) -> str:
    """Describe an error about a full or read-only volume, and what to do."""
    name = str(_final(file))
    problem = f"{name}: cannot be written: {_reason(error)}"
    if getattr(error, "errno", None) == errno.EROFS:
        return f"{problem}. Make the volume writable"
    return f"{problem}; without unfinished files, {state_of_volume(file)}. Free some space"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or " ".join(str(error).split())


def _final(path: Path) -> Path:
    """Return a path without the names of temporary folders."""
    return Path(*(part for part in path.parts if not part.startswith(UNFINISHED)))


def state_of_volume(path: Path) -> str:
    """Name the volume of an absolute path, and its free space."""
    volume = next(parent for parent in (path, *path.parents) if os.path.ismount(parent))
    free = shutil.disk_usage(volume).free
    return f"the volume {volume} has {free:,} bytes free"


def _path_on_fullest_volume(prepared: Path | None) -> Path:
    """Return the path whose volume has the least space, among those that commands write to.

    These are the working directory, the folder of temporary files, the prepared data, and the file
    that the output is redirected to.
    """
    paths = [Path.cwd(), Path(tempfile.gettempdir())]
    if prepared is not None:
        paths.append(prepared.absolute())
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            paths.insert(0, Path(f"/proc/self/fd/{stream.fileno()}").resolve(strict=True))
    existing = [next(part for part in (path, *path.parents) if part.exists()) for path in paths]
    return min(existing, key=lambda path: shutil.disk_usage(path).free)
