"""Run lmms-eval in the first or second of two processes, and record the state in which it exits.

With `tests` on the path, run ``torchrun --nproc_per_node 2 -m runs.observed_run OUT ARGUMENTS`` with
``--output_path OUT``. Each process writes ``OUT/<rank>.exit.json``. The first one delays saving until the second one
exits, for at most `PATIENCE_S`: if the processes did not wait for each other, the second one would exit first.
"""

import atexit
import json
import os
import runpy
import sys
import time
from pathlib import Path

PATIENCE_S = 5.0


def threads() -> list[str]:
    """Return the names of this process's threads, including those that Python does not know."""
    return [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]


def main() -> None:
    out = Path(sys.argv.pop(1))
    out.mkdir(exist_ok=True)

    def record_exit() -> None:
        state = {"threads": threads(), "is_saved": any(out.rglob("*_results.json"))}
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
