"""Makes the demo's files in a folder and runs lmms-eval on them, as a user would."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from lmms_egoplan.demo import egoplan

# What each benchmark brings: its TASKS, and write(folder), which returns the arguments that prepare its data.
_BENCHMARKS = (egoplan,)

_MARKER = ".lmms-egoplan-demo"
_CHECKPOINT, _DATA, _RESULTS, _LOG = "checkpoint", "data", "results", "lmms-eval.log"
_COMMAND_LINE = [sys.executable, "-c", "from lmms_egoplan.cli import app; app()"]
_LMMS_EVAL = [sys.executable, "-m", "lmms_eval"]
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "LMMS_EGOPLAN_DATA": _DATA}
_SHOWN_LINES = 25
_COUNTS = ("num_questions", "coverage", "split_size", "predictions", "ties")


class DemoError(RuntimeError):
    """The demo cannot use its folder, or a command that it runs has failed."""


def run_demo(out: Path, console: Console) -> None:
    """Make a tiny random LLaVA and the benchmarks' rendered sets, evaluate one on the other, show the result.

    Args:
        out: folder for everything; made if absent. What an earlier demo left there is replaced.

    Raises:
        DemoError: `out` holds something else, or preparing or lmms-eval failed; with the end of the log.
        OSError: `out` cannot be written to.
    """
    out = out.resolve()
    _claim(out)
    with console.status("Making a tiny LLaVA with random weights") as status:
        from lmms_egoplan.demo.checkpoint import write_checkpoint

        write_checkpoint(out / _CHECKPOINT)
        status.update("Rendering the scenes")
        preparations = [benchmark.write(out) for benchmark in _BENCHMARKS]
        for arguments in preparations:
            _run([*_COMMAND_LINE, "data", "prepare", *arguments], out, "Preparing the data", status)
        command = _evaluation([task for benchmark in _BENCHMARKS for task in benchmark.TASKS])
        _run(command, out, "lmms-eval", status)
    _report(out, command, _read_results(out), console)


def _claim(out: Path) -> None:
    """Make the folder, or empty it of what an earlier demo made."""
    marker = out / _MARKER
    if out.exists() and not marker.is_file():
        if not out.is_dir():
            raise DemoError(f"{out} is no folder; choose another with --out")
        if any(out.iterdir()):
            raise DemoError(
                f"{out} is not empty and was not made by this demo; choose a new folder with --out"
            )
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    made = [_CHECKPOINT, _DATA, _RESULTS, *(benchmark.FOLDER for benchmark in _BENCHMARKS)]
    for folder in made:
        if (out / folder).exists():
            shutil.rmtree(out / folder)
    (out / _LOG).write_bytes(b"")


def _evaluation(tasks: Sequence[str]) -> list[str]:
    return [
        *_LMMS_EVAL,
        *("--model", "hf_vlm", "--model_args", f"pretrained={_CHECKPOINT},dtype=float32"),
        *("--tasks", ",".join(tasks), "--batch_size", "8"),
        *("--output_path", _RESULTS, "--log_samples"),
    ]


def _run(command: Sequence[str], out: Path, title: str, status: Status) -> None:
    """Run a command in the folder; its output goes to the log, and the last line of it is the status."""
    width = max(20, status.console.width - len(title) - 8)
    tail: list[str] = []
    process = subprocess.Popen(
        command,
        cwd=out,
        env=os.environ | _ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    with process, (out / _LOG).open("a", encoding="utf-8") as log:
        try:
            # Universal newlines: a progress bar's carriage return ends a line too.
            for line in process.stdout or ():
                log.write(line)
                log.flush()
                if text := line.strip():
                    tail = [*tail[1 - _SHOWN_LINES :], text]
                    status.update(f"{title}: {escape(text[-width:])}")
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise DemoError(
            f"{_shell(command)}\nended with exit code {process.returncode}. The end of {out / _LOG}:\n"
            + "\n".join(f"  {line}" for line in tail)
        )


def _shell(command: Sequence[str]) -> str:
    return " ".join([*(f"{name}={value}" for name, value in _ENVIRONMENT.items()), shlex.join(command)])


def _read_results(out: Path) -> dict[str, dict[str, Any]]:
    """Per task its metrics, by name without the harness's filter suffix."""
    files = list((out / _RESULTS).rglob("*_results.json"))
    if len(files) != 1:
        raise DemoError(f"lmms-eval left {len(files)} result files in {out / _RESULTS}; see {out / _LOG}")
    results = json.loads(files[0].read_text(encoding="utf-8"))["results"]
    return {
        task: {name.removesuffix(",none"): value for name, value in metrics.items()}
        for task, metrics in results.items()
    }


def _report(out: Path, command: Sequence[str], results: dict[str, dict[str, Any]], console: Console) -> None:
    print(results)
