"""Leave the process group of a run on several CPU processes before Python exits."""

import sys

import torch.distributed as dist

from lmms_egoplan.errors import LmmsEgoplanError


def leave() -> None:
    """Stop gloo's threads before Python exits.

    A thread that still releases a tensor when Python begins to finalize waits for the GIL, is
    ended, and aborts the process (``terminate called without an active exception``).
    """
    if _has_gloo():
        dist.destroy_process_group()


def wait_and_leave() -> None:
    """Wait until all processes have saved and printed their results; then leave.

    Neither the harness nor the trainer waits after its last collective, and a launcher stops all
    processes as soon as one fails.

    Raises:
        LmmsEgoplanError: Another process ended first, or did not finish within the time limit of
            the process group.
    """
    if not _has_gloo():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        dist.barrier()
    except RuntimeError as error:
        raise LmmsEgoplanError(
            f"another process ended or did not finish in time: {error}"
        ) from error
    leave()


def _has_gloo() -> bool:
    """Return whether the process group uses gloo.

    This looks at the group's configuration, since `get_backend` returns ``undefined`` if nobody
    has named a backend.
    """
    return dist.is_available() and dist.is_initialized() and "gloo" in dist.get_backend_config()
