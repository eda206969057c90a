"""Apply a pull request to a copy of a harness, in a temporary environment that cannot import this
package.

The environment contains a copy of the harness, and links to everything else that this interpreter
has installed. To apply a pull request, `Check` applies `changes.patch` and copies `files/`, first
those of the pull requests it requires. A step that cannot run is a failure.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

from patches import PatchError, apply_patch, changed_files, new_files, requirements

SUPPORT = Path(__file__).resolve().parent / "support"
TESTS = Path(__file__).resolve().parents[1] / "tests"
OURS = "lmms_egoplan"
SOURCE_FOLDERS = ("site-packages", "dist-packages")

# A developer's shell or a CI may set these variables; a maintainer's shell has none of them.
UNSET = ("PYTHONPATH", "PYTHONHOME", "LMMS_EVAL_PLUGINS", "LMMS_CACHE_RUN_ID", "VIRTUAL_ENV")

BLOCK = f"""import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{OURS}":
            raise ModuleNotFoundError("{OURS} is blocked here", name=name)


sys.meta_path.insert(0, Blocked())
"""


class Check:
    """Steps of a pull request's ``check``; the first failure ends the program and prints the
    reason.

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
        self._applied: set[Path] = set()

    def __enter__(self) -> "Check":
        try:
            installed = version(self.harness)
        except PackageNotFoundError:
            fail(
                f"{self.harness} is not installed for {sys.executable}; install this "
                "project with its test extra"
            )
        if installed != self.release:
            fail(
                f"{self.harness} {installed} is installed; this check needs "
                f"{self.release}: install that release"
            )
        if shutil.which("git") is None:
            fail("git is not installed; install it to apply patches")
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    @cached_property
    def site(self) -> Path:
        """The environment's site-packages folder; the environment is created on first use."""
        site = environment(Path(self._temporary.name) / "environment", self.harness)
        (source,) = (
            folder / self.harness for folder in source_folders() if (folder / self.harness).is_dir()
        )
        shutil.copytree(source, site / self.harness)
        process = self._start([self.python(site), "-c", f"import {OURS}"])
        if "is blocked here" not in process.stderr:
            fail(f"importing {OURS} is not blocked", process.stdout + process.stderr)
        return site

    @staticmethod
    def python(site: Path) -> Path:
        return site.parents[2] / "bin" / "python"

    def apply(self, *pull_requests: Path) -> None:
        """Apply pull requests to the harness, each after those it requires; by default, this
        check's own.
        """
        try:
            ordered = [
                path
                for folder in pull_requests or (self.pull_request,)
                for path in (*requirements(folder), folder)
                if path not in self._applied
            ]
            for folder in dict.fromkeys(ordered):
                if folder == self.pull_request:
                    self._apply_own()
                else:
                    apply_patch(folder, self.site, self.release)
                self.copy_files(folder)
                self._applied.add(folder)
        except PatchError as error:
            fail(str(error))
        ok("applied: " + ", ".join(folder.name for folder in dict.fromkeys(ordered)))

    def _apply_own(self) -> None:
        changed = [
            self.site / path for path in changed_files(self.pull_request) if path.suffix == ".py"
        ]
        before = self._findings(changed)
        apply_patch(self.pull_request, self.site, self.release)
        if changed:
            self._check_format(changed, "changed files", before)

    def copy_files(self, folder: Path) -> None:
        """Copy a pull request's new files to the harness, those outside its package to `work`."""
        for relative in new_files(folder):
            target = (self.site if relative.parts[0] == self.harness else self.work) / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "files" / relative, target)

    def formatted(self) -> None:
        """Check the new files with the harness's ruff settings; `apply` checks changed files."""
        files = [self.pull_request / "files" / path for path in new_files(self.pull_request)]
        for path in files:
            if OURS in path.read_text(encoding="utf-8").replace("-", "_"):
                fail(f"{path} names {OURS}")
        if code := [path for path in files if path.suffix == ".py"]:
            self._check_format(code, "new files", Counter())

    def _check_format(self, files: Sequence[Path], which: str, before: Counter[str]) -> None:
        done = self._ruff("format", "--check", "--diff", *files)
        if done.returncode:
            fail(f"ruff format, {which}", done.stdout + done.stderr)
        if added := self._findings(files) - before:
            fail(f"ruff check, {which}", "\n".join(added.elements()))
        ok(f"ruff format and check, {which}: clean")

    def _findings(self, files: Sequence[Path]) -> Counter[str]:
        """Run ``ruff check``, and count equal findings."""
        if not files:
            return Counter()
        done = self._ruff("check", "--output-format", "json", *files)
        if done.returncode not in (0, 1):
            fail("ruff check", done.stdout + done.stderr)
        return Counter(
            f"{item['filename']}: {item['code']} {item['message']}"
            for item in json.loads(done.stdout)
        )

    def _ruff(self, command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        ruff = shutil.which(
            "ruff", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        )
        if ruff is None:
            fail("ruff is not installed, so the format cannot be checked; install ruff")
        words = [
            ruff,
            command,
            "--config",
            SUPPORT / "pre_commit" / f"{self.harness}.ruff.toml",
            "--no-cache",
        ]
        words = [str(word) for word in (*words, *arguments)]
        return subprocess.run(words, cwd=self.work, capture_output=True, text=True, check=False)

    def run(self, *arguments: object, fails_with: str | None = None, **variables: object) -> str:
        """Run the environment's Python with these arguments, and return its output.

        Args:
            fails_with: Text that the output must contain if the command should fail. The exit
                status is ignored, because a failing lmms-eval also exits with 0.
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
        return subprocess.run(
            words, cwd=self.work, env=environment, capture_output=True, text=True, check=False
        )

    def plugin(self, module: Path, group: str, value: str) -> None:
        """Install a module with an entry point, like a user's package."""
        shutil.copy(module, self.site)
        information = self.site / f"{module.stem}-0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module.stem}\nVersion: 0\n"
        )
        (information / "entry_points.txt").write_text(f"[{group}]\n{module.stem} = {value}\n")

    def evaluate(
        self, output: str, *arguments: object, **variables: object
    ) -> tuple[dict, dict[str, list[dict]]]:
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
        self.run(
            "-c",
            "; ".join(["from pathlib import Path", "from zoo import save", *calls]),
            PYTHONPATH=TESTS,
        )
        return folders


def source_folders() -> list[Path]:
    """Return the folders where this interpreter's packages are installed."""
    return [
        folder
        for folder in map(Path, sys.path)
        if folder.name in SOURCE_FOLDERS and folder.is_dir()
    ]


def environment(folder: Path, harness: str) -> Path:
    """Create an environment with this interpreter's packages, except this package and the harness.

    Returns:
        The environment's site-packages folder.
    """
    venv.EnvBuilder(system_site_packages=True, with_pip=False, symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for source in source_folders():
        for entry in sorted(source.iterdir()):
            target = site / entry.name
            is_excluded = (
                entry.name.startswith((OURS, "__"))
                or entry.suffix == ".pth"
                or entry.name == harness
            )
            if not is_excluded and not target.is_symlink() and not target.exists():
                target.symlink_to(entry)
    (site / "_no_package.py").write_text(BLOCK)
    (site / "_no_package.pth").write_text("import _no_package\n")
    return site


def ok(text: str) -> None:
    print(f"ok      {text}", flush=True)


def fail(text: str, output: str = "") -> NoReturn:
    print(f"FAILED  {text}\n{output[-6000:]}", flush=True)
    raise SystemExit(1)
