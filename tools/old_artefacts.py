#!/usr/bin/env python3
"""Make files with a commit, and check that the working tree reads them without making them again.

    python tools/old_artefacts.py make e75139b7 FOLDER
    python tools/old_artefacts.py read FOLDER

FOLDER then contains prepared data, a cache of judgements, a cache of responses, a database of
labels with its clips, an interrupted training run, and drawn samples. ``read`` copies what it uses.
It fails if a judge gets a request, a response is computed again, a clip is cut again, another
sample is drawn, or a command fails. FOLDER must stay at its path, because the files name it.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from compare_outputs import REPOSITORY, Tree, environment, git


def main() -> int:
    """Make or read the files, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    make = actions.add_parser("make", help="make the files with a commit")
    make.add_argument("commit")
    make.add_argument("folder", type=Path)
    read = actions.add_parser("read", help="read the files with the working tree")
    read.add_argument("folder", type=Path)
    read.add_argument("--only", nargs="+", metavar="NAME", help="read only these kinds of files")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.action == "make":
        folder.mkdir(parents=True)
        commit = git("rev-parse", "--verify", f"{options.commit}^{{commit}}").strip()
        with Tree(commit) as tree:
            return run(tree.copied(), folder, "make")
    return run(REPOSITORY.parent, folder, "read", *(options.only or ()), tree=REPOSITORY)


def run(root: Path, folder: Path, *arguments: str, tree: Path | None = None) -> int:
    """Run a function of `output_cases.artefacts` in the folder, with the package of a tree."""
    variables = environment(root)
    if tree:
        search = [tree, tree / "tests", Path(__file__).parent]
        variables["PYTHONPATH"] = os.pathsep.join(map(str, search))
    variables["HF_DATASETS_CACHE"] = str(folder / "datasets")
    command = [sys.executable, "-m", "output_cases.artefacts", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
