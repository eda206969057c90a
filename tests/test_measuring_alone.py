"""Without the rooms that make questions, labels, models and plans, everything that measures still
works.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_tree import COMMANDS
from patience import FOREVER_S

ROOT = Path(__file__).resolve().parents[1]
MAKING = ("annotation", "construction", "overlap", "planner", "training")
# Modules of `cli` with their commands.
COMMAND_MODULES = ("annotate", "audit", "build", "plan", "train")
SKIPPED = (
    *(
        f"benchmarks/{path.parent.name}"
        for path in ROOT.glob("lmms_egoplan/benchmarks/*/__init__.py")
    ),
    "harnesses",
    "judging",
    "media",
    "ranking",
    "runs",
    "test_docs.py",
    "test_upstream.py",
)
PAGES = ("annotation", "building-*", "overlap", "planning", "tuning-on-egoplan-it")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not (ROOT / "lmms_egoplan" / MAKING[0]).exists(), reason="these rooms are already removed"
    ),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the project without these rooms, and a function that runs Python in it."""
    root = tmp_path_factory.mktemp("measuring") / "main"
    shutil.copytree(
        ROOT,
        root,
        ignore=shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "*.egg-info", "build"),
    )
    (root.parent / "shared").symlink_to(ROOT.parent / "shared")
    for room in MAKING:
        shutil.rmtree(root / "lmms_egoplan" / room)
        shutil.rmtree(root / "tests" / room)
    for module in COMMAND_MODULES:
        (root / "tests" / "cli" / f"test_{module}.py").unlink(missing_ok=True)
    for page in (page for pattern in PAGES for page in (root / "docs").glob(f"{pattern}.md")):
        page.unlink()

    def run(*arguments, **environment):
        command = [sys.executable, *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"} | environment
        return subprocess.run(
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=2 * FOREVER_S,
            check=False,
        )

    return root, run


def test_its_help_has_only_its_commands(copy):
    _, run = copy
    walk = (
        "import sys; sys.path.append('tests')\n"
        "from command_tree import COMMANDS\n"
        "for path in COMMANDS: print(path)"
    )
    done = run("-c", walk)
    assert done.returncode == 0, done.stderr
    making = {
        path
        for path, command in COMMANDS.items()
        if command.callback.__module__.rpartition(".")[2] in COMMAND_MODULES
    }
    assert len(making) > 15
    assert {*done.stdout.splitlines()} == COMMANDS.keys() - making
    words = run("-m", "lmms_egoplan", "--help", COLUMNS="200").stdout.split()
    assert "report" in words
    assert not {"annotate", "audit", "train", "merge", "plan"} & {*words}


def test_all_tasks_are_listed(copy):
    _, run = copy
    names = (
        "from lmms_eval.tasks import TaskManager; from lmms_egoplan.paths import LMMS_EVAL_TASKS\n"
        "print(LMMS_EVAL_TASKS)\n"
        "manager = TaskManager('ERROR', include_path=str(LMMS_EVAL_TASKS), "
        "include_defaults=False)\n"
        "print(*sorted(manager.all_tasks), sep='\\n')"
    )
    folder, *listed = run("-c", names).stdout.splitlines()
    assert folder == str(copy[0] / "tasks" / "lmms_eval")
    original = subprocess.run(
        [sys.executable, "-c", names], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert listed == original.stdout.splitlines()[1:]
    assert "egoplan_val" in listed


def test_the_demo_runs(copy):
    root, run = copy
    done = run("-m", "lmms_egoplan", "demo", "--out", root.parent / "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (root.parent / "demo" / "report" / "index.html").is_file()


def test_its_tests_pass(copy):
    """Collect all tests, and run those that a missing room can affect.

    The skipped tests use no other room than their own and the shared modules, take long in
    harnesses and models, or check the docs, which describe the whole package.
    """
    _, run = copy
    collected = run(
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        "-n0",
        "--ignore=tests/test_docs.py",
    )
    assert collected.returncode == 0, collected.stdout[-6000:]
    skipped = [f"--ignore=tests/{room}" for room in SKIPPED]
    done = run("-m", "pytest", "-p", "no:cacheprovider", *skipped)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
