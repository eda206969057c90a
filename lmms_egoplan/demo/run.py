"""Makes the demo's files in a folder, runs lmms-eval on them and writes the report, as a user would."""

import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.text import Text

from lmms_egoplan.demo.rendered_set import RenderedSet
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging import DEMO

_MARKER = ".lmms-egoplan-demo"
_CHECKPOINT, _ENCODER, _DATA, _RESULTS, _REPORT = "checkpoint", "encoder", "data", "results", "report"
_LOG = "lmms-eval.log"
_OWN_COMMAND = [sys.executable, "-c", "from lmms_egoplan.cli import app; app()"]
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "LMMS_EGOPLAN_DATA": _DATA,
    "LMMS_EGOPLAN_JUDGE_MODEL": DEMO,
    "LMMS_EGOPLAN_ENCODER": _ENCODER,
    "OMP_NUM_THREADS": "1",  # more threads would only wait for each other: the model is tiny
}
# The user's own judge and classifier have no part in the demo, nor have the judge's keys.
_USERS_PREFIXES = ("LMMS_EGOPLAN_JUDGE_", "LMMS_EGOPLAN_BLEURT", "OPENAI_", "AZURE_")
_USERS_VARIABLES = ("MODEL_VERSION", "API_TYPE", "API_VERSION")
_SHOWN_LINES = 30
_NOTE = (
    "The demo runs every step of an evaluation on small sets. The weights are random, and the judge "
    f"'{DEMO}' only compares words, so the scores mean nothing.\n"
)
_STEPS = (
    "Make a tiny LLaVA and a sentence encoder with random weights",
    "Render first-person scenes with questions about them",
    "Prepare the data of all benchmarks (lmms-egoplan data prepare)",
    "Ask the model all questions, and score its answers (lmms-eval)",
    "Write the report (lmms-egoplan report)",
    "Show the scores",
)
# In the log, above what lmms-eval writes.
_EXPECTED = (
    "# lmms-eval warns of every choice that target_delimiter and choice have no white space. This is intended: the "
    "model's chat template sets it.\n"
)


def run_demo(out: Path, console: Console, sets: Sequence[RenderedSet], show_scores: Callable[[Path], None]) -> None:
    """Make a tiny random LLaVA and the benchmarks' rendered sets, run lmms-eval on them, write the report, show scores.

    Args:
        out: folder for everything; made if absent. What an earlier demo made there is replaced.
        sets: of the benchmarks.
        show_scores: prints those of the runs in a folder.

    Raises:
        LmmsEgoplanError: `out` holds something else, or a command failed or gave no results; then with the end of the
            log.
        OSError: `out` cannot be written to.
    """
    out = out.resolve()
    _claim(out, sets)
    steps = iter(enumerate(_STEPS, 1))

    def begin_step() -> None:
        number, step = next(steps)
        console.print(f"{number}/{len(_STEPS)}  {step}", markup=False, highlight=False)
        status.update("")

    console.print(_NOTE, markup=False, highlight=False)
    with console.status("") as status:
        begin_step()
        from lmms_egoplan.demo.checkpoint import write_checkpoint
        from lmms_egoplan.demo.encoder import write_encoder

        write_checkpoint(out / _CHECKPOINT)
        write_encoder(out / _ENCODER)
        begin_step()
        preparations = [rendered.write(out) for rendered in sets]
        begin_step()
        for arguments in preparations:
            _run([*_OWN_COMMAND, "data", "prepare", *arguments], out, status)
        begin_step()
        command = _evaluation([task for rendered in sets for task in rendered.TASKS])
        _run(command, out, status, _EXPECTED)
        _check_results(out, sets)
        begin_step()
        _run([*_OWN_COMMAND, "report", _RESULTS, "--out", _REPORT], out, status)
        begin_step()
    show_scores(out / _RESULTS)
    _tell(out, command, console, sets)


def _claim(out: Path, sets: Sequence[RenderedSet]) -> None:
    """Make the folder, or take what an earlier demo made out of it."""
    marker = out / _MARKER
    if out.exists() and not out.is_dir():
        raise LmmsEgoplanError(f"{out} is no folder; choose another with --out")
    if out.exists() and not marker.is_file() and any(out.iterdir()):
        raise LmmsEgoplanError(f"{out} holds files that are not this demo's; choose another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    for name in (_CHECKPOINT, _ENCODER, _DATA, _RESULTS, _REPORT, *(rendered.FOLDER for rendered in sets)):
        if (out / name).exists():
            shutil.rmtree(out / name)
    (out / _LOG).unlink(missing_ok=True)


def _evaluation(tasks: Sequence[str]) -> list[str]:
    """The lmms-eval command; ``python -m lmms_eval`` is what its console script runs."""
    return [
        *(sys.executable, "-m", "lmms_eval", "--tasks", ",".join(tasks)),
        *("--model", "hf_vlm", "--model_args", f"pretrained={_CHECKPOINT},dtype=float32"),
        *("--batch_size", "8", "--output_path", _RESULTS, "--log_samples"),
    ]


def _run(command: Sequence[str], out: Path, status: Status, remark: str = "") -> None:
    """Run a command in the folder; its output goes to the log, behind a remark, and its latest line to the status."""
    width = max(20, status.console.width - 4)
    process = subprocess.Popen(
        command,
        cwd=out,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    with process, (out / _LOG).open("a", encoding="utf-8", buffering=1) as log:
        log.write(f"$ {_as_typed(command)}\n{remark}")
        try:
            # Text mode: the carriage return of a progress bar ends a line, too.
            for line in process.stdout or ():
                plain = Text.from_ansi(line).plain.rstrip()
                log.write(f"{plain}\n")
                if message := plain.rpartition(" - ")[2]:
                    status.update(escape(message[:width]))
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise _failure(out, f"exit code {process.returncode}: {_as_typed(command)}")


def _environment() -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_USERS_PREFIXES) and name not in _USERS_VARIABLES
    }
    return own | _ENVIRONMENT


def _as_typed(command: Sequence[str]) -> str:
    return " ".join([*(f"{name}={value}" for name, value in _ENVIRONMENT.items()), shlex.join(command)])


def _failure(out: Path, reason: str) -> LmmsEgoplanError:
    lines = [line for line in (out / _LOG).read_text(encoding="utf-8").splitlines() if line]
    return LmmsEgoplanError(
        "\n".join([*lines[-_SHOWN_LINES:], f"the demo failed, the end of {out / _LOG} is above; {reason}"])
    )


def _check_results(out: Path, sets: Sequence[RenderedSet]) -> None:
    """Every score is there; lmms-eval exits with 0 after errors, too."""
    files = list((out / _RESULTS).rglob("*_results.json"))
    if len(files) != 1:
        raise _failure(out, f"lmms-eval has written {len(files)} files of results, expected one")
    results = {
        task: {name.partition(",")[0]: value for name, value in metrics.items()}
        for task, metrics in json.loads(files[0].read_text(encoding="utf-8"))["results"].items()
    }
    for rendered in sets:
        for task, metric in rendered.SCORES.items():
            value = results.get(task, {}).get(metric)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise _failure(out, f"{metric} of {task} is {value} in {files[0]}")


def _tell(out: Path, command: Sequence[str], console: Console, sets: Sequence[RenderedSet]) -> None:
    def line(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False, highlight=False)

    line(f"\nThe lmms-eval command was:\n  cd {shlex.quote(str(out))} && {_as_typed(command)}\n")
    line(f"Files, in {out}:")
    (written,) = (path.relative_to(out) for path in (out / _RESULTS).rglob("*_results.json"))
    for content, name in (
        ("tiny LLaVA", _CHECKPOINT),
        ("sentence encoder", _ENCODER),
        *(("scenes, questions", rendered.FOLDER) for rendered in sets),
        ("prepared data", _DATA),
        ("results", written),
        ("samples, by task", written.with_name("*_samples_*.jsonl")),
        ("log", _LOG),
    ):
        line(f"  {content:<20}{name}")
    line(f"\nReport, to open in a browser: {out / _REPORT / 'index.html'}")
    line("\nNext: the real benchmarks, step by step in the README (lmms-egoplan data prepare --help).")
