"""Name file and volume in errors about volumes that are full or read-only."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError

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


@contextmanager
def with_path_in_error(path: Path) -> Iterator[None]:
    """Add this path to write errors that name no file or a temporary file."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
    except Exception as error:
        if _is_full(error):
            raise OSError(errno.ENOSPC, str(error).splitlines()[0], str(path)) from error
        raise


@contextmanager
def with_volume_in_error(out: Path, temporary: str) -> Iterator[None]:
    """Explain errors about full volumes.

    Args:
        out: Path for errors that name no file.
        temporary: Prefix of temporary folders, which messages omit.

    Raises:
        LmmsEgoplanError: A file cannot be written. The message names it and its volume.
    """
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        file = Path(getattr(error, "filename", None) or out).absolute()
        mount = next(path for path in (file, *file.parents) if os.path.ismount(path))
        free = shutil.disk_usage(mount).free
        reason = getattr(error, "strerror", None) or error
        final = Path(*(part for part in file.parts if not part.startswith(temporary)))
        raise LmmsEgoplanError(
            f"{final}: cannot be written: {reason}. The volume {mount} has {free:,} bytes free. "
            "Free some space, or set another --out."
        ) from error


def _is_full(error: Exception) -> bool:
    """Return whether an error means a full or read-only volume.

    Some libraries have errors without a number; these are recognised by their message.
    """
    if getattr(error, "errno", None) in _FULL:
        return True
    message = str(error)
    return any(text in message for text in _FULL_TEXTS)
