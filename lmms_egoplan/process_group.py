"""Print an error of several processes once, and leave their process group before Python exits."""

import hashlib
import os
import sys
from datetime import timedelta

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


def print_error(text: str) -> None:
    """Print an error on standard error, once for all processes of a launch that have it.

    The other processes wait until it is printed, because a launcher stops all processes as soon as
    one exits.
    """
    store = _launcher_store()
    if store is None:
        print(text, file=sys.stderr, flush=True)
        return
    key = f"lmms-egoplan/error/{hashlib.sha256(text.encode()).hexdigest()}"
    if store.add(f"{key}/processes", 1) > 1:
        store.wait([f"{key}/printed"])
        return
    print(text, file=sys.stderr, flush=True)
    store.set(f"{key}/printed", "")


def _launcher_store() -> dist.Store | None:
    """Connect to torchrun's store; None without one."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or not dist.is_available():
        return None
    address = os.environ["MASTER_ADDR"]
    port = int(os.environ["MASTER_PORT"])
    try:
        return dist.TCPStore(address, port, is_master=False, timeout=timedelta(minutes=1))
    except RuntimeError:  # the launcher has ended
        return None


def _has_gloo() -> bool:
    """Return whether the process group uses gloo.

    This looks at the group's configuration, since `get_backend` returns ``undefined`` if nobody
    has named a backend.
    """
    return dist.is_available() and dist.is_initialized() and "gloo" in dist.get_backend_config()
