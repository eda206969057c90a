"""The processes of a run leave their process group together, after the results are saved and before
Python exits.
"""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from lmms_egoplan import process_group
from lmms_egoplan.errors import LmmsEgoplanError
from patience import FOREVER_S, wait_until
from runs.harness import TWO_PROCESSES, hf_vlm, log, start
from runs.observed_run import gloo_threads
from runs.small_set import prepare_small_set
from zoo import save

# A process that meets this one, then fails.
FAILING = """
import os, sys
import torch.distributed as dist

store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), is_master=False, wait_for_workers=False)
dist.init_process_group(store=store, rank=1, world_size=2)
dist.barrier()
os._exit(1)
"""


def threads() -> set[str]:
    """Return the numbers of this process's threads. Older versions of torch do not name gloo's."""
    return {task.name for task in Path("/proc/self/task").iterdir()}


def test_gloos_threads_end_although_nobody_named_a_backend():
    """As in a run on CPUs, in which accelerate names none."""
    earlier = threads()
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    dist.barrier()  # a thread of gloo runs it
    assert dist.get_backend() == "undefined"
    started = threads() - earlier
    assert started
    process_group.leave()
    assert not dist.is_initialized()
    wait_until(lambda: not started & threads())  # the system may still list a thread that has ended
    process_group.leave()  # a second time, as the handler of the backend does at exit


@pytest.mark.nightly
def test_a_process_does_not_wait_for_one_that_failed():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with subprocess.Popen([sys.executable, "-c", FAILING, str(store.port)]) as other:
        dist.init_process_group(
            store=store, rank=0, world_size=2, timeout=timedelta(seconds=FOREVER_S)
        )
        dist.barrier()
        with pytest.raises(LmmsEgoplanError, match="another process ended"):
            process_group.wait_and_leave()
        process_group.leave()
    assert other.returncode == 1
    wait_until(lambda: not gloo_threads())


@pytest.mark.whole
def test_no_process_exits_before_the_results_are_saved(tmp_path, monkeypatch):
    """Otherwise, the launcher could stop the first process, if another one failed while Python
    exits.
    """
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    prepare_small_set(tmp_path, 4)
    checkpoint, out = save("llava", tmp_path / "llava"), tmp_path / "out"
    observed = [*TWO_PROCESSES[:-1], "runs.observed_run", out]
    arguments = [*hf_vlm(checkpoint, "egoplan_val_blind"), "--output_path", out]
    assert start(tmp_path, *arguments, launcher=observed).wait(FOREVER_S) == 0, log(tmp_path)
    states = [
        json.loads((out / f"{rank}.exit.json").read_text(encoding="utf-8")) for rank in (0, 1)
    ]
    assert [state["is_saved"] for state in states] == [True, True]
    assert [state["gloo_threads"] for state in states] == [[], []]
