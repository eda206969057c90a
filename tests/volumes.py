"""Volumes with little room."""

import os
import resource
import subprocess
from contextlib import contextmanager


@contextmanager
def volume_of(folder, room):
    """A volume with little room; where none can be mounted, this process's files may not be larger.

    Gives its mount point.
    """
    folder.mkdir()
    page = os.sysconf("SC_PAGE_SIZE")
    options = ["-o", f"size={room + page}"]
    if subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", folder], capture_output=True).returncode == 0:
        (folder / "file").write_bytes(bytes(page))
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)
        return
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        yield next(parent for parent in folder.parents if parent.is_mount())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
