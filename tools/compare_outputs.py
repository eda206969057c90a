#!/usr/bin/env python3
"""Compare the outputs of the working tree with those of a commit, byte for byte.

    python tools/compare_outputs.py main
    python tools/compare_outputs.py main --only help tests-report
    python tools/compare_outputs.py --list

Each case of `output_cases` runs once from a copy of each tree, in new folders: commands with their
files, and the test suite with all that its tests write, print, send and raise. Before two outputs
are compared, only what differs between two runs of one tree is replaced: paths, times, durations,
addresses and random tokens. Differing files are printed with the first lines of their difference,
and the exit code is 1. The outputs of a commit are kept in ``--cache`` and used again.
"""

import argparse
import difflib
import fcntl
import filecmp
import hashlib
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from output_cases import CASES, Case
from output_cases.normalise import fingerprints, normalise, normalise_name

TOOLS = Path(__file__).resolve().parent
REPOSITORY = TOOLS.parent
# On the file system of temporary files, to which a copy can be moved.
ROOT = Path(tempfile.gettempdir()).resolve() / "lmms-egoplan-outputs"
# Time of all files of a tree: fingerprints of prepared data contain the times of media.
FILE_TIME = 1_700_000_000
MOST_FILES = 40
MOST_LINES = 24
MOST_COMPARED = 300
LONGEST_LINE = 400
# Variables that would change what commands do. The cases set their own.
USERS_PREFIXES = ("LMMS_", "OPENAI_", "AZURE_", "PYTEST_", "HF_", "WANDB_", "XDG_")
INFO = "info.json"


@dataclass(frozen=True)
class Outputs:
    """The outputs of one tree.

    title: the commit, or "working tree".
    folder: folder with one folder for each case.
    """

    title: str
    folder: Path


def main() -> int:
    """Compare, and return the exit code."""
    # Like Ctrl-C, a signal ends the running case and deletes the copies of the trees.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = parse_options()
    if options.list:
        print("\n".join(f"{case.name:20} {case.title}" for case in CASES))
        return 0
    cases = [case for case in CASES if not options.only or case.name in options.only]
    if options.compare:
        return compare_kept(cases, options.compare)
    commit = git("rev-parse", "--verify", f"{options.commit}^{{commit}}").strip()
    cache = options.cache.resolve()
    with tempfile.TemporaryDirectory(prefix="outputs-new-") as kept:
        new = Outputs("working tree", (options.keep or Path(kept)).resolve() / "after")
        differing = 0
        with Tree(None) as after, Tree(commit) as before:
            old = Outputs(commit[:12], cache / f"{commit}-{program_digest()}")
            for case in cases:
                if not (old.folder / case.name / INFO).exists():
                    before.run(case, old.folder / case.name)
                after.run(case, new.folder / case.name)
                differing += compare_case(case, old, new)
                if options.keep:
                    kept_before = options.keep / "before" / case.name
                    shutil.rmtree(kept_before, ignore_errors=True)
                    shutil.copytree(old.folder / case.name, kept_before)
    print(f"{differing} files differ" if differing else "All outputs are equal.")
    return int(differing > 0)


def compare_kept(cases: Sequence[Case], folder: Path) -> int:
    """Compare outputs that were kept, and return the exit code."""
    old = Outputs("before", folder / "before")
    new = Outputs("after", folder / "after")
    differing = 0
    for case in cases:
        if all((outputs.folder / case.name / INFO).exists() for outputs in (old, new)):
            differing += compare_case(case, old, new)
            print(f"{case.name} is compared", flush=True)
    print(f"{differing} files differ" if differing else "All outputs are equal.")
    return int(differing > 0)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", nargs="?", default="main", help="commit to compare with")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these cases")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the outputs of both trees"
    )
    parser.add_argument(
        "--compare", type=Path, metavar="FOLDER", help="only compare outputs of --keep"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=REPOSITORY / ".nightly" / "outputs",
        help="folder for the outputs of commits (default: .nightly/outputs)",
    )
    options = parser.parse_args()
    unknown = set(options.only or ()) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; see --list")
    return options


def git(*arguments: str) -> str:
    """Run git in the repository."""
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def program_digest() -> str:
    """Return a digest of the cases. Outputs of other versions of this program are not used."""
    digest = hashlib.sha256()
    for file in sorted(TOOLS.glob("output_cases/*.py")):
        if file.stem not in ("normalise", "artefacts"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


class Tree:
    """A copy of a commit or of the working tree, while the context is open. It is made when needed.

    Fingerprints and keys contain paths. Therefore all cases of all trees run in the folder `ROOT`,
    one after another, and the copy is there only while its case runs.
    """

    def __init__(self, commit: str | None) -> None:
        self._commit = commit
        self._copy: Path | None = None

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *_: object) -> None:
        if self._copy:
            shutil.rmtree(self._copy, ignore_errors=True)

    def run(self, case: Case, outputs: Path) -> None:
        """Run a case, and move its outputs to a folder."""
        with self.placed() as root:
            stored = root / "stored"
            stored.mkdir()
            started = time.time()
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            with (stored / "output.log").open("w") as log:
                code = subprocess.run(
                    [sys.executable, *case.arguments(root)],
                    cwd=root / "work",
                    env=environment(root),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=False,
                ).returncode
            ended = time.time()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            title = self._commit[:12] if self._commit else "working tree"
            times = f"{ended - started:.0f} s, {processor:.0f} s of a processor"
            print(f"{case.name} of {title}: {times}, exit code {code}", flush=True)
            info = {"started": started, "ended": ended, "root": str(root), "code": code}
            (stored / INFO).write_text(json.dumps(info))
            shutil.rmtree(outputs, ignore_errors=True)
            outputs.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(stored, outputs)

    @contextmanager
    def placed(self) -> Iterator[Path]:
        """Move the copy to ``ROOT/tree`` while the context is open; yield `ROOT`.

        Another comparison on this machine waits until then.
        """
        copy = self.copied()
        with ROOT.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(ROOT, ignore_errors=True)
            (ROOT / "work").mkdir(parents=True)
            shared = shared_folder()
            if shared:
                (ROOT / "shared").symlink_to(shared)
            (copy / "tree").rename(ROOT / "tree")
            try:
                yield ROOT
            finally:
                (ROOT / "tree").rename(copy / "tree")
                shutil.rmtree(ROOT, ignore_errors=True)

    def copied(self) -> Path:
        """Return the folder that contains the copy, in ``tree``."""
        self._copy = self._copy or self._make()
        return self._copy

    def _make(self) -> Path:
        copy = Path(tempfile.mkdtemp(prefix="outputs-"))
        tree = copy / "tree"
        tree.mkdir()
        if self._commit:
            with subprocess.Popen(
                ["git", "archive", self._commit], cwd=REPOSITORY, stdout=subprocess.PIPE
            ) as archive:
                subprocess.run(["tar", "-x"], cwd=tree, stdin=archive.stdout, check=True)
        else:
            listed = git("ls-files", "-co", "--exclude-standard", "-z").split("\0")
            for name in filter(None, listed):
                if (REPOSITORY / name).is_file():
                    (tree / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(REPOSITORY / name, tree / name, follow_symlinks=False)
        for path in tree.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path, (FILE_TIME, FILE_TIME))
        return copy


def shared_folder() -> Path | None:
    """Return the folder with the published data that some tests read; None if there is none."""
    main_checkout = Path(git("rev-parse", "--path-format=absolute", "--git-common-dir").strip())
    for checkout in (REPOSITORY, main_checkout.parent):
        if (checkout.parent / "shared").is_dir():
            return checkout.parent / "shared"
    return None


def environment(root: Path) -> dict[str, str]:
    """Return the environment of all cases, the same for both trees."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(USERS_PREFIXES)
    }
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)
    search = [root / "tree", root / "tree" / "tests", TOOLS]
    return inherited | {
        "PYTHONPATH": os.pathsep.join(map(str, search)),
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(root / "datasets"),
        "LMMS_EGOPLAN_DATA": str(root / "work" / "data"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def compare_case(case: Case, old: Outputs, new: Outputs) -> int:
    """Print the differing files of a case, and return their number."""
    folders = (old.folder / case.name, new.folder / case.name)
    infos = [
        json.loads((folder / INFO).read_text()) | {"fingerprints": fingerprints(folder)}
        for folder in folders
    ]
    files = [list_files(folder, info) for folder, info in zip(folders, infos, strict=True)]
    differing = report_failures(case, folders, infos)
    for name in sorted(files[0].keys() | files[1].keys()):
        difference = "".join(compare_file(name, files, infos, (old.title, new.title)))
        if not difference:
            continue
        differing += 1
        if differing <= MOST_FILES:
            print(f"--- {case.name}/{name}\n{difference}", flush=True)
    if differing > MOST_FILES:
        print(f"... and {differing - MOST_FILES} other files of {case.name}")
    return differing


def report_failures(case: Case, folders: Sequence[Path], infos: Sequence[dict]) -> int:
    """Print the end of the output of a case that did not run to its end. Return 1 for a failure.

    Failed tests are outputs: pytest's exit code is 1 in both trees if the same tests fail.
    """
    allowed = (0, 1) if case.tests else (0,)
    for folder, info in zip(folders, infos, strict=True):
        has_files = any(path.name not in (INFO, "output.log") for path in folder.iterdir())
        if info["code"] not in allowed or not has_files:
            lines = (folder / "output.log").read_text(errors="replace").splitlines()
            end = "\n".join(lines[-MOST_LINES:])
            print(f"--- {case.name}\nfailed with exit code {info['code']}:\n{end}", flush=True)
            return 1
    return 0


def list_files(folder: Path, info: dict) -> dict[str, Path]:
    """Return a case's files by their name without times."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (INFO, "output.log"):
            files[normalise_name(str(path.relative_to(folder)), info)] = path
    return files


def compare_file(
    name: str, files: Sequence[dict[str, Path]], infos: Sequence[dict], titles: Sequence[str]
) -> Iterator[str]:
    """Yield the first lines of the difference between two files; nothing if they are equal."""
    for side in (0, 1):
        if name not in files[side]:
            yield f"missing in {titles[side]}\n"
            return
    if filecmp.cmp(files[0][name], files[1][name], shallow=False):
        return
    texts = [
        normalise(paths[name].read_text(encoding="utf-8", errors="surrogateescape"), info, name)
        for paths, info in zip(files, infos, strict=True)
    ]
    if texts[0] == texts[1]:
        return
    sides = [text.splitlines() for text in texts]
    pairs = zip(*sides, strict=False)
    equal = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    start = sum(1 for _ in equal)
    # The whole texts can be too long for difflib.
    before, after = (side[max(0, start - 1) : start + MOST_COMPARED] for side in sides)
    yield f"line {start + 1}{differing_part([side[start : start + 1] for side in sides])}\n"
    lines = difflib.unified_diff(before, after, *titles, lineterm="", n=1)
    for number, line in enumerate(lines):
        if number >= MOST_LINES:
            yield "...\n"
            return
        yield line[:LONGEST_LINE].encode("utf-8", "backslashreplace").decode() + "\n"


def differing_part(lines: Sequence[list[str]]) -> str:
    """Return what differs between two long lines, which are printed only to `LONGEST_LINE`."""
    if not all(lines):
        return ""
    before, after = (line[0] for line in lines)
    pairs = zip(before, after, strict=False)
    column = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    if column < LONGEST_LINE - 100:
        return ""
    parts = [line[max(0, column - 60) : column + 100] for line in (before, after)]
    return f", column {column + 1}: {parts[0]!r}, now {parts[1]!r}"


if __name__ == "__main__":
    sys.exit(main())
