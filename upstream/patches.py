"""Files of a pull request's folder, and how they are applied to a tree of the harness.

`check` (with the installed harness) and `build` (with a checkout of the harness's repository) both
use this module.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UPSTREAM = Path(__file__).resolve().parent
REPOSITORIES = {
    "EvolvingLMMs-Lab/lmms-eval": "lmms_eval",
    "EleutherAI/lm-evaluation-harness": "lm_eval",
}
RELEASES = {"lmms_eval": "0.7.3", "lm_eval": "0.4.13"}
"""The release of each harness that the patches are made for."""

HUNK = re.compile(r"^@@ -(?P<start>\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*$", re.MULTILINE)
OLD_FILE = re.compile(r"^--- (?:a/)?(?P<file>\S+)", re.MULTILINE)
NEW_FILE = re.compile(r"^\+\+\+ b/(?P<file>\S+)", re.MULTILINE)
REJECTED = re.compile(r"^error: patch failed: (?P<file>.+):(?P<line>\d+)$", re.MULTILINE)
OFFSET = re.compile(
    r"^Hunk #(?P<number>\d+) succeeded at (?P<line>\d+) \(offset (?P<offset>-?\d+) lines?\)",
    re.MULTILINE,
)


class PatchError(Exception):
    """A pull request that does not fit the tree; the text says which file and hunk."""


@dataclass(frozen=True)
class Hunk:
    """One hunk of a patch."""

    file: str
    number: int  # in its file, from 1
    start: int  # first line in the old file
    text: str

    @property
    def header(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def old_lines(self) -> list[str]:
        return [line[1:] for line in self.text.splitlines()[1:] if line[:1] in (" ", "-")]

    def __str__(self) -> str:
        return f"{self.file}, hunk {self.number}: {self.header}"


def requirements(folder: Path) -> list[Path]:
    """Return the folders that a pull request requires, directly or not, in order of application."""
    listed = folder / "requires"
    folders: list[Path] = []
    for name in listed.read_text(encoding="utf-8").split() if listed.exists() else ():
        required = folder.parent / name
        if not (required / "PR.md").exists():
            raise PatchError(f"{listed} names {name}, which is no pull request; correct the name.")
        folders += [path for path in (*requirements(required), required) if path not in folders]
    return folders


def new_files(folder: Path) -> list[Path]:
    """Return a pull request's new files, relative to the root of the harness's repository."""
    paths = (
        path
        for path in (folder / "files").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return sorted(path.relative_to(folder / "files") for path in paths)


def changed_files(folder: Path) -> list[Path]:
    """Return the existing files that a pull request changes."""
    patch = folder / "changes.patch"
    return (
        sorted({Path(name) for name in NEW_FILE.findall(patch.read_text(encoding="utf-8"))})
        if patch.exists()
        else []
    )


def hunks(patch: Path) -> Iterator[Hunk]:
    """Split a patch of one or more files into hunks."""
    text = patch.read_text(encoding="utf-8")
    for part in re.split(r"^(?=diff --git )", text, flags=re.MULTILINE):
        file = OLD_FILE.search(part)
        starts = list(HUNK.finditer(part))
        for number, match in enumerate(starts, 1):
            end = starts[number].start() if number < len(starts) else len(part)
            assert file is not None
            yield Hunk(file["file"], number, int(match["start"]), part[match.start() : end])


def apply_patch(folder: Path, tree: Path, release: str) -> list[str]:
    """Apply `changes.patch` to a tree, without fuzz.

    Returns:
        A line for each hunk that applies at another line than in the release.

    Raises:
        PatchError: A hunk does not apply, or applies at another line while its old lines occur more
            than once.
    """
    patch = folder / "changes.patch"
    if not patch.exists():
        return []
    by_file = {}
    for hunk in hunks(patch):
        by_file.setdefault(hunk.file, []).append(hunk)
    before = {file: _lines(tree / file) for file in by_file}
    # The variable makes git ignore a repository that contains the tree without being its own.
    variables = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.resolve().parent), "LC_ALL": "C"}
    command = ["git", "apply", "--verbose", str(patch.resolve())]
    done = subprocess.run(
        command, cwd=tree, env=variables, capture_output=True, text=True, check=False
    )
    made_for = f"{folder.name}/changes.patch is made for release {release}"
    if done.returncode:
        rejected = {(match["file"], int(match["line"])) for match in REJECTED.finditer(done.stderr)}
        failed = [
            hunk
            for file in by_file.values()
            for hunk in file
            if (hunk.file, hunk.start) in rejected
        ]
        reasons = [f"{hunk} does not apply" for hunk in failed]
        reasons += [f"{file} does not exist" for file in by_file if not (tree / file).exists()]
        raise PatchError(f"{made_for}; here, " + "; ".join(reasons or [done.stderr.strip()]))
    moved = []
    for part in re.split(r"^Checking patch ", done.stderr, flags=re.MULTILINE)[1:]:
        file = part.partition("...")[0]
        for match in OFFSET.finditer(part):
            hunk = by_file[file][int(match["number"]) - 1]
            if (count := _count(hunk.old_lines, before[file])) > 1:
                raise PatchError(f"{made_for}; here, {hunk} fits in {count} places")
            moved.append(f"{hunk} applies at line {match['line']}")
    return moved


def copy_files(folder: Path, tree: Path) -> None:
    """Copy a pull request's new files to a tree.

    Raises:
        PatchError: The tree already has one of them.
    """
    for relative in new_files(folder):
        target = tree / relative
        if target.exists():
            raise PatchError(
                f"{folder.name}/files/{relative} already exists in the harness; make it a change."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "files" / relative, target)


def harness_of(folder: Path) -> str:
    """Return the package of the harness that a pull request is for, from the link in its
    description.
    """
    match = re.search(
        r"^To \[.+?\]\(https://github\.com/(.+?)\)",
        (folder / "PR.md").read_text(encoding="utf-8"),
        re.M,
    )
    if match is None or match[1] not in REPOSITORIES:
        raise PatchError(
            f"{folder / 'PR.md'} has no line 'To [name](https://github.com/...)' for a "
            "known repository."
        )
    return REPOSITORIES[match[1]]


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _count(part: list[str], lines: list[str]) -> int:
    """Count the places where consecutive lines occur."""
    return sum(
        lines[start : start + len(part)] == part for start in range(len(lines) - len(part) + 1)
    )
