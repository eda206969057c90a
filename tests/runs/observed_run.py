"""Run lmms-eval in the first or second of two processes, and record the state in which it exits.

With `tests` on the path, run ``torchrun --nproc_per_node 2 -m runs.observed_run OUT ARGUMENTS``
with ``--output_path OUT``. Each process writes ``OUT/<rank>.exit.json``. The first one delays
saving until the second one exits, for at most `PATIENCE_S`: if the processes did not wait for each
other, the second one would exit first.
"""

import atexit
import json
import os
import runpy
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 5.0


def gloo_threads() -> list[str]:
    """Return the names of gloo's threads in this process. Python does not know them."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            names.append((task / "comm").read_text().strip())
    return [name for name in names if "gloo" in name]


def main() -> None:
    out = Path(sys.argv.pop(1))
    out.mkdir(exist_ok=True)

    def record_exit() -> None:
        is_saved, end = any(out.rglob("*_results.json")), time.monotonic() + PATIENCE_S
        # the system may still list a thread that has ended
        while gloo_threads() and time.monotonic() < end:
            time.sleep(0.05)
        state = {"gloo_threads": gloo_threads(), "is_saved": is_saved}
        (out / f"{os.environ['RANK']}.exit.json").write_text(json.dumps(state), encoding="utf-8")

    atexit.register(record_exit)  # the first handler runs last
    from lmms_eval.loggers import EvaluationTracker

    save = EvaluationTracker.save_results_aggregated

    def save_late(*args, **kwargs):
        end = time.monotonic() + PATIENCE_S
        while not (out / "1.exit.json").exists() and time.monotonic() < end:
            time.sleep(0.05)
        return save(*args, **kwargs)

    EvaluationTracker.save_results_aggregated = save_late
    runpy.run_module("lmms_eval", run_name="__main__")


if __name__ == "__main__":
    main()
