"""Create volumes with little free space."""

import os
import resource
import subprocess
from contextlib import contextmanager


@contextmanager
def volume_of(folder, room):
    """Mount a volume with `room` free bytes in `folder`, and yield its mount point.

    If this process may not mount volumes, limit the size of its files instead.
    """
    folder.mkdir()
    page = os.sysconf("SC_PAGE_SIZE")
    options = ["-o", f"size={room + page}"]
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", *options, "tmpfs", folder], capture_output=True
        ).returncode
        == 0
    ):
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
