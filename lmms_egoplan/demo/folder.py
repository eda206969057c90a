"""Run the demo's commands in its folder, and log their output."""

import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import clear
from lmms_egoplan.processes import end_children

OWN_COMMAND = (sys.executable, "-m", "lmms_egoplan")
LOG = "lmms-eval.log"
RESULTS = "results"
_DATA = "data"
REPORT = "report"

# The demo ignores the user's judge, keys and classifier.
_USERS_PREFIXES = ("LMMS_EGOPLAN_JUDGE_", "LMMS_EGOPLAN_BLEURT", "OPENAI_", "AZURE_")
_USERS_VARIABLES = ("MODEL_VERSION", "API_TYPE", "API_VERSION")
_LAST_LINES = 30
# Number of commands that run at the same time.
_PARALLEL = 2
# Remark in the log above lmms-eval's output.
_EXPECTED_WARNINGS = (
    "# lmms-eval warns for every choice that target_delimiter and choice have no white space. You "
    "can ignore this: the model's chat template adds it.\n"
)


class DemoFolder:
    """The demo's folder.

    While `status` is active, it shows the last output line of the running command.

    Args:
        path: folder, created if missing.
        contents: names of files, in addition to data, results and report. Those of an earlier demo
            are deleted (`outputs.clear`).
        steps: titles of the demo's steps, printed when a step begins.
        environment: variables for the commands, in addition to the user's and to those of every
            demo.

    Raises:
        LmmsEgoplanError: `path` contains a file with such a name that no finished demo wrote.
        OSError: `path` is not writable.
    """

    def __init__(
        self,
        path: Path,
        contents: Sequence[str],
        console: Console,
        steps: Sequence[str],
        **environment: str,
    ) -> None:
        self.path = path.resolve()
        self._console = console
        self._steps = [f"{number}/{len(steps)}  {step}" for number, step in enumerate(steps, 1)]
        # The models are too small to benefit from more threads.
        self._environment = {
            "HF_HUB_OFFLINE": "1",
            "LMMS_EGOPLAN_DATA": _DATA,
            "OMP_NUM_THREADS": "1",
        } | environment
        self.status = console.status("")
        self.path.mkdir(parents=True, exist_ok=True)
        names = (*contents, _DATA, RESULTS, f"{RESULTS}.yaml", REPORT, LOG)
        clear([self.path / name for name in names])

    def begin_step(self) -> None:
        """Print the next step."""
        self._console.print(self._steps.pop(0), markup=False, highlight=False)
        self.status.update("")

    def run(self, *commands: Sequence[str], remark: str = "") -> None:
        """Run commands in the folder, two at a time. Log the remark and each command's output.

        Raises:
            LmmsEgoplanError: a command failed.
        """
        processes: list[subprocess.Popen[str]] = []
        try:
            for number, command in enumerate(commands):
                for next_command in commands[len(processes) : number + _PARALLEL]:
                    processes.append(self._start(next_command))
                self._follow(processes[number], command, remark)
        except BaseException:
            end_children()
            raise

    def _start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.path,
            env=self._users_environment() | self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )

    def _follow(self, process: subprocess.Popen[str], command: Sequence[str], remark: str) -> None:
        width = max(20, self._console.width - 4)
        with (self.path / LOG).open("a", encoding="utf-8", buffering=1) as log:
            log.write(f"$ {self.as_typed(command)}\n{remark}")
            # In text mode, a progress bar's carriage return also ends a line.
            for line in process.stdout or ():
                plain = Text.from_ansi(line).plain.rstrip()
                log.write(f"{plain}\n")
                message = plain.rpartition(" - ")[2]
                if message:
                    self.status.update(escape(message[:width]))
        process.communicate()
        if process.returncode:
            raise self._failure(f"exit code {process.returncode}: {self.as_typed(command)}")

    def evaluate(
        self,
        models: Mapping[str, str],
        tasks: Sequence[str],
        results: str,
        scores: Mapping[str, str],
    ) -> list[dict[str, dict[str, float]]]:
        """Run lmms-eval once for all models, with ``python -m lmms_eval``.

        Args:
            models: ``--model_args`` of each model, mapped to lmms-eval's name of its backend.
            results: name of the folder for the results, which must have none yet. The evaluations
                are written next to it, to ``RESULTS.yaml``.
            scores: for each task, the metric that must be a number after the run.

        Returns:
            One mapping per results file, from tasks to their metrics.

        Raises:
            LmmsEgoplanError: a score is missing. lmms-eval exits with 0 even after errors.
        """
        settings = {
            "tasks": ",".join(tasks),
            "batch_size": "8",
            "output_path": results,
            "log_samples": True,
        }
        evaluations = []
        for arguments, backend in models.items():
            evaluations.append({"model": backend, "model_args": arguments} | settings)
        config = self.path / f"{results}.yaml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(
            yaml.safe_dump(evaluations, sort_keys=False, width=1000), encoding="utf-8"
        )
        self.run(
            [sys.executable, "-m", "lmms_eval", "--config", f"{results}.yaml"],
            remark=_EXPECTED_WARNINGS,
        )
        files = sorted((self.path / results).rglob("*_results.json"))
        if len(files) != len(models):
            raise self._failure(
                f"lmms-eval wrote {len(files)} results files, expected {len(models)}"
            )
        return [self._metrics(file, scores) for file in files]

    def _metrics(self, file: Path, scores: Mapping[str, str]) -> dict[str, dict[str, float]]:
        results = json.loads(file.read_text(encoding="utf-8"))["results"]
        metrics: dict[str, dict[str, float]] = {}
        for task, values in results.items():
            metrics[task] = {name.partition(",")[0]: value for name, value in values.items()}
        for task, metric in scores.items():
            value = metrics.get(task, {}).get(metric)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise self._failure(f"{file}: {task}: expected a number for {metric}, got {value}")
        return metrics

    def report(self) -> None:
        """Write the report of all runs."""
        self.run([*OWN_COMMAND, "report", RESULTS, "--out", REPORT])

    def as_typed(self, command: Sequence[str]) -> str:
        """Format a command as a user would type it in the folder."""
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        return " ".join([*variables, shlex.join(command)])

    def _users_environment(self) -> dict[str, str]:
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_USERS_PREFIXES) and name not in _USERS_VARIABLES
        }

    def _failure(self, reason: str) -> LmmsEgoplanError:
        log = (self.path / LOG).read_text(encoding="utf-8")
        lines = [line for line in log.splitlines() if line][-_LAST_LINES:]
        lines.append(f"The demo failed: {reason}. The end of {self.path / LOG} is above.")
        return LmmsEgoplanError("\n".join(lines))
