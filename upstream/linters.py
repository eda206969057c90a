"""Run the hooks of a project's own pre-commit configuration on changed files, in the versions that
it names.

pre-commit installs each hook from a git repository. Here the same versions come from the package
registry: `Linters` rewrites the configuration to local hooks, and pre-commit itself selects the
files and runs the hooks.
"""

import os
import re
import subprocess
import venv
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

FACTS = Path(__file__).resolve().parent / "support" / "pre_commit"
CONFIGURATION = ".pre-commit-config.yaml"

STATUS = re.compile(
    r"^(?P<hook>.+?)\.{3,}(?:\(.+\))?(?P<status>Passed|Failed|Skipped)$", re.MULTILINE
)
LINE_NUMBER = re.compile(r":\d+(?::\d+)?")


class LinterError(Exception):
    """Linters that cannot run, or new findings."""


@dataclass
class Linters:
    """The hooks of a tree's configuration.

    Args:
        tree: A git work tree; a hook may change its files.
        harness: ``lmms_eval`` or ``lm_eval``; its stored configuration is for trees without one.
        folder: An empty folder for the environment and the rewritten configuration.
    """

    tree: Path
    harness: str
    folder: Path

    @cached_property
    def source(self) -> Path:
        """The file with the configuration."""
        in_tree = self.tree / CONFIGURATION
        return in_tree if in_tree.exists() else FACTS / f"{self.harness}.yaml"

    @cached_property
    def _facts(self) -> dict:
        return yaml.safe_load((FACTS / "hooks.yaml").read_text(encoding="utf-8"))

    @cached_property
    def _configuration(self) -> dict:
        return yaml.safe_load(self.source.read_text(encoding="utf-8"))

    def packages(self) -> list[str]:
        """Return the linters with their versions, as requirements of pip.

        Raises:
            LinterError: The configuration has a repository or hook that `hooks.yaml` lacks.
        """
        listed = []
        for entry in self._configuration["repos"]:
            facts = self._facts.get(entry["repo"], {"hooks": {}})
            unknown = [hook["id"] for hook in entry["hooks"] if hook["id"] not in facts["hooks"]]
            if unknown:
                raise LinterError(
                    f"{FACTS / 'hooks.yaml'} has no {entry['repo']}: {', '.join(unknown)}; add it."
                )
            listed.append(f"{facts['package']}=={entry['rev'].removeprefix('v')}")
        return listed

    def install(self) -> None:
        """Install the linters and pre-commit from the registry, and write the rewritten
        configuration.
        """
        packages = self.packages()
        venv.EnvBuilder(with_pip=True, symlinks=True).create(self.folder / "environment")
        pip = [
            self._program("python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        done = subprocess.run(
            [*pip, *packages, "pre-commit"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise LinterError(
                f"cannot install {', '.join(packages)}: {done.stderr.strip()[-2000:]}"
            )
        (self.folder / CONFIGURATION).write_text(yaml.safe_dump(self._local()), encoding="utf-8")

    def _local(self) -> dict:
        hooks = []
        for entry in self._configuration["repos"]:
            for hook in entry["hooks"]:
                facts = self._facts[entry["repo"]]["hooks"][hook["id"]]
                program, _, options = facts["entry"].partition(" ")
                local = facts | hook | {"name": hook["id"], "language": "system"}
                local["entry"] = f"{self._program(program)} {options}".strip()
                local.pop("language_version", None)
                hooks.append(local)
        return self._configuration | {"repos": [{"repo": "local", "hooks": hooks}]}

    def _program(self, name: str) -> str:
        return str(self.folder / "environment" / "bin" / name)

    def run(self, base: str, head: str, base_tree: Path) -> str:
        """Run all hooks on the files that changed from `base` to `head`.

        Args:
            base_tree: A work tree of `base`. If a hook fails, its findings there do not count.

        Returns:
            A summary.

        Raises:
            LinterError: A hook has new findings.
        """
        done = self._pre_commit(self.tree, "--from-ref", base, "--to-ref", head)
        by_status: dict[str, list[str]] = {"Passed": [], "Failed": [], "Skipped": []}
        for match in STATUS.finditer(done.stdout):
            by_status[match["status"]].append(match["hook"])
        if not by_status["Passed"] and not by_status["Failed"]:
            raise LinterError(f"no hook ran:\n{done.stdout}{done.stderr}")
        self._restore(self.tree)
        files = self._git(
            self.tree, "diff", "--name-only", "--diff-filter=d", base, head
        ).splitlines()
        earlier = []
        for hook in dict.fromkeys(by_status["Failed"]):
            findings = self._findings(self.tree, hook, files)
            added = findings - self._findings(
                base_tree, hook, [file for file in files if (base_tree / file).exists()]
            )
            if added or not findings:
                raise LinterError(f"{hook}:\n" + ("\n".join(added.elements()) or done.stdout))
            earlier.append(
                f"; {hook}: no new finding, {findings.total()} lines of output as before the change"
            )
        passed = dict.fromkeys(by_status["Passed"])
        idle = [hook for hook in dict.fromkeys(by_status["Skipped"]) if hook not in passed]
        without_files = f"; no changed files for {', '.join(idle)}" if idle else ""
        return ", ".join(passed) + "".join(earlier) + without_files

    def _findings(self, tree: Path, hook: str, files: list[str]) -> Counter[str]:
        """Count the lines that a hook prints or changes, without line numbers."""
        if not files:
            return Counter()
        done = self._pre_commit(tree, hook, "--files", *files)
        changes = self._git(tree, "diff", "--unified=0").splitlines()
        self._restore(tree)
        printed = [
            LINE_NUMBER.sub("", line)
            for line in done.stdout.splitlines()
            if LINE_NUMBER.search(line)
        ]
        return Counter(
            [*printed, *(line for line in changes if re.match(r"[+-](?![+-]{2} )", line))]
        )

    def _pre_commit(self, tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            self._program("pre-commit"),
            "run",
            "--config",
            str(self.folder / CONFIGURATION),
            "--color",
            "never",
        ]
        variables = os.environ | {
            "PRE_COMMIT_HOME": str(self.folder / "cache"),
            "RUFF_OUTPUT_FORMAT": "concise",
        }
        variables.pop("SKIP", None)
        return subprocess.run(
            [*command, *arguments],
            cwd=tree,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def _restore(self, tree: Path) -> None:
        self._git(tree, "checkout", "--quiet", "--", ".")

    @staticmethod
    def _git(tree: Path, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=tree, capture_output=True, text=True, check=True
        ).stdout
