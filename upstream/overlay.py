"""Apply a pull request to a copy of a harness, in a temporary environment that cannot import this package.

The environment contains a copy of the harness, and links to everything else that this interpreter has installed. To
apply a pull request, `Check` removes the lines of `removed.txt`, applies `changes.patch` and copies `files/`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

SUPPORT = Path(__file__).resolve().parent / "support"
TESTS = Path(__file__).resolve().parents[1] / "tests"
OURS = "lmms_egoplan"
SOURCE_FOLDERS = ("site-packages", "dist-packages")

# A developer's shell or a CI may set these variables; a maintainer's shell has none of them.
UNSET = ("PYTHONPATH", "PYTHONHOME", "LMMS_EVAL_PLUGINS", "LMMS_CACHE_RUN_ID", "VIRTUAL_ENV")

CHANGED = re.compile(r"^\+\+\+ b/(.+\.py)$", re.MULTILINE)

BLOCK = f"""import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{OURS}":
            raise ModuleNotFoundError("{OURS} is blocked here", name=name)


sys.meta_path.insert(0, Blocked())
"""

# Line width and import order from each harness's own configuration.
RUFF_LMMS_EVAL = "line-length = 240\n"
ISORT = ["--profile", "black", "--project", "lmms_eval"]
RUFF_LM_EVAL = """[lint]
select = ["E4", "E7", "E9", "F", "I", "W605"]

[lint.isort]
lines-after-imports = 2
known-first-party = ["lm_eval"]
"""


class Check:
    """Steps of a pull request's ``check``; the first failure ends the program and prints the reason.

    Args:
        script: The ``check`` file; its folder is the pull request.
        harness: ``lmms_eval`` or ``lm_eval``.
        release: The harness version that ``changes.patch`` applies to.
    """

    def __init__(self, script: str, harness: str, release: str) -> None:
        self.pull_request = Path(script).resolve().parent
        self.harness, self.release = harness, release
        self._temporary = tempfile.TemporaryDirectory(prefix="upstream-")
        self.work = Path(self._temporary.name) / "work"
        self.work.mkdir()

    def __enter__(self) -> "Check":
        try:
            installed = version(self.harness)
        except PackageNotFoundError:
            fail(f"{self.harness} is not installed for {sys.executable}; install this project with its test extra")
        if installed != self.release:
            print(f"note    {self.harness} {installed} is installed; the change applies to {self.release}")
        if shutil.which("git") is None:
            fail("git is not installed; install it to apply patches")
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    @cached_property
    def site(self) -> Path:
        """The environment's site-packages folder; the environment is created on first use."""
        environment = Path(self._temporary.name) / "environment"
        venv.EnvBuilder(system_site_packages=True, with_pip=False, symlinks=True).create(environment)
        (site,) = environment.glob("lib/python*/site-packages")
        for folder in map(Path, sys.path):
            for entry in sorted(folder.iterdir()) if folder.name in SOURCE_FOLDERS and folder.is_dir() else ():
                target = site / entry.name
                if (
                    entry.name.startswith((OURS, "__"))
                    or entry.suffix == ".pth"
                    or target.is_symlink()
                    or target.exists()
                ):
                    continue
                if entry.name == self.harness:
                    shutil.copytree(entry, target)
                else:
                    target.symlink_to(entry)
        (site / "_no_package.py").write_text(BLOCK)
        (site / "_no_package.pth").write_text("import _no_package\n")
        process = self._start([self.python(site), "-c", f"import {OURS}"])
        if "is blocked here" not in process.stderr:
            fail(f"importing {OURS} is not blocked", process.stdout + process.stderr)
        return site

    @staticmethod
    def python(site: Path) -> Path:
        return site.parents[2] / "bin" / "python"

    def apply(self, *pull_requests: Path) -> None:
        """Apply pull requests to the harness; by default, this check's own."""
        for folder in pull_requests or (self.pull_request,):
            self._remove_lines(folder / "removed.txt")
            patch = folder / "changes.patch"
            if patch.exists():
                command = ["git", "apply", "--unidiff-zero", patch]
                variables = os.environ | {"GIT_CEILING_DIRECTORIES": self._temporary.name}  # ignores any repository
                done = subprocess.run(
                    command, cwd=self.site, env=variables, capture_output=True, text=True, check=False
                )
                if done.returncode:
                    fail(f"{patch.parent.name}/{patch.name} does not apply", done.stderr)
                changed = [self.site / name for name in CHANGED.findall(patch.read_text(encoding="utf-8"))]
                if folder == self.pull_request and changed:
                    self._check_format(changed, "changed files")
            self.copy_files(folder)
        ok("applied: " + ", ".join(folder.name for folder in pull_requests or (self.pull_request,)))

    def _remove_lines(self, listed: Path) -> None:
        """Remove lines from the harness; each entry of `listed` names a file and ranges of its lines."""
        for line in listed.read_text(encoding="utf-8").splitlines() if listed.exists() else ():
            name, *ranges = line.split()
            removed = {number for line_range in ranges for number in range(*span(line_range))}
            file = self.site / name
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            file.write_text("".join(text for number, text in enumerate(lines, 1) if number not in removed))

    def copy_files(self, folder: Path) -> None:
        """Copy a pull request's new files to the harness; files outside its package go to `work`."""
        for file in sorted(path for path in (folder / "files").rglob("*") if path.is_file()):
            if "__pycache__" in file.parts:
                continue
            relative = file.relative_to(folder / "files")
            target = (self.site if relative.parts[0] == self.harness else self.work) / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)

    def formatted(self) -> None:
        """Check the new files with the harness's formatter settings; `apply` checks the changed files."""
        new_files = [path for path in (self.pull_request / "files").rglob("*.py") if "__pycache__" not in path.parts]
        for path in new_files:
            if OURS in path.read_text(encoding="utf-8").replace("-", "_"):
                fail(f"{path} names {OURS}")
        if not new_files:
            return
        self._check_format(new_files, "new files")
        if self.harness == "lmms_eval" and find_spec("isort") is None:
            skipped("isort is not installed, so the order of imports is not checked")
        elif self.harness == "lmms_eval":  # only new files: some files of the release fail this check
            self._format([sys.executable, "-m", "isort", *ISORT, "--check", "--diff", *new_files], "isort, new files")

    def _check_format(self, files: Sequence[Path], which: str) -> None:
        settings = self.work / "ruff.toml"
        settings.write_text(RUFF_LMMS_EVAL if self.harness == "lmms_eval" else RUFF_LM_EVAL)
        ruff = shutil.which("ruff")
        options = ["--config", settings, "--no-cache"]
        if ruff is None:
            skipped("ruff is not installed, so the format is not checked")
        else:
            self._format([ruff, "format", "--check", "--diff", *options, *files], f"ruff format, {which}")
        if self.harness == "lm_eval" and ruff is not None:
            self._format([ruff, "check", *options, *files], f"ruff check, {which}")

    def _format(self, command: Sequence[object], name: str) -> None:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode:
            fail(name, done.stdout + done.stderr)
        ok(f"{name}: clean")

    def run(self, *arguments: object, fails_with: str | None = None, **variables: object) -> str:
        """Run the environment's Python with these arguments, and return its output.

        Args:
            fails_with: Text that the output must contain if the command should fail. The exit status is ignored,
                because a failing lmms-eval also exits with 0.
            variables: Environment variables to set.
        """
        done = self._start([self.python(self.site), *arguments], variables)
        output = done.stdout + done.stderr
        if fails_with is None and done.returncode:
            fail(" ".join(map(str, arguments)), output)
        if fails_with is not None and fails_with not in output:
            fail(f"{' '.join(map(str, arguments))}: expected a failure with {fails_with!r}", output)
        return output

    def _start(
        self, command: Sequence[object], variables: dict[str, object] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in UNSET}
        environment |= {
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.work / "hub"),
            "TMPDIR": self._temporary.name,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "TOKENIZERS_PARALLELISM": "false",
        }
        for name, value in (variables or {}).items():
            environment |= {name: str(value)}
        words = [str(word) for word in command]
        return subprocess.run(words, cwd=self.work, env=environment, capture_output=True, text=True, check=False)

    def plugin(self, module: Path, group: str, value: str) -> None:
        """Install a module with an entry point, like a user's package."""
        shutil.copy(module, self.site)
        information = self.site / f"{module.stem}-0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.stem}\nVersion: 0\n")
        (information / "entry_points.txt").write_text(f"[{group}]\n{module.stem} = {value}\n")

    def evaluate(self, output: str, *arguments: object, **variables: object) -> tuple[dict, dict[str, list[dict]]]:
        """Run lmms-eval's command with ``--log_samples``.

        Returns:
            The results of all tasks and groups, and the samples of each task.
        """
        folder = self.work / output
        command = ["-m", "lmms_eval", *arguments, "--output_path", folder, "--log_samples"]
        log = self.run(*command, **variables)
        result_files = sorted(folder.rglob("*_results.json"))
        if not result_files:
            fail("no results file: " + " ".join(map(str, command)), log)
        samples = {}
        for path in sorted(folder.rglob("*_samples_*.jsonl")):
            lines = path.read_text(encoding="utf-8").splitlines()
            samples[path.stem.partition("_samples_")[2]] = [json.loads(line) for line in lines]
        return json.loads(result_files[-1].read_text(encoding="utf-8"))["results"], samples

    def checkpoint(self, family: str) -> Path:
        """Write a tiny checkpoint of the tests' zoo to `work`, and return its folder."""
        return self.checkpoints(family)[family]

    def checkpoints(self, *families: str) -> dict[str, Path]:
        """Write several checkpoints, and return their folders by family."""
        folders = {family: self.work / "checkpoints" / family for family in families}
        calls = [f"save({family!r}, Path({str(folder)!r}))" for family, folder in folders.items()]
        self.run("-c", "; ".join(["from pathlib import Path", "from zoo import save", *calls]), PYTHONPATH=TESTS)
        return folders


def span(lines: str) -> tuple[int, int]:
    """Return the first line and the one after the last, from ``first-last``."""
    first, last = lines.split("-")
    return int(first), int(last) + 1


def ok(text: str) -> None:
    print(f"ok      {text}", flush=True)


def skipped(text: str) -> None:
    print(f"skipped {text}", flush=True)


def fail(text: str, output: str = "") -> NoReturn:
    print(f"FAILED  {text}\n{output[-6000:]}", flush=True)
    raise SystemExit(1)
