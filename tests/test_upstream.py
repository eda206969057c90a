"""Pull requests in `upstream/`: contents of their folders, their own checks, and the branches that
`build` makes.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from patience import FOREVER_S

UPSTREAM = Path(__file__).parents[1] / "upstream"
PULL_REQUESTS = sorted(path.parent for path in UPSTREAM.glob("*/PR.md"))
WITH_PATCH = [folder for folder in PULL_REQUESTS if (folder / "changes.patch").exists()]
REPORTS = sorted((UPSTREAM / "issues").glob("*.md"))
by_name = pytest.mark.parametrize("folder", PULL_REQUESTS, ids=lambda folder: folder.name)

sys.path.append(str(UPSTREAM))  # as for the scripts there
patches, linters = (importlib.import_module(name) for name in ("patches", "linters"))


def git(tree, *arguments):
    return subprocess.run(
        ["git", *arguments], cwd=tree, capture_output=True, text=True, check=True
    ).stdout


def commit(tree):
    """Put a tree under git."""
    git(tree, "init", "--quiet", "--initial-branch", "main")
    for key, value in (
        ("user.name", "A Maintainer"),
        ("user.email", "maintainer@example.org"),
        ("gc.auto", "0"),
    ):
        git(tree, "config", key, value)
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "--no-verify", "--message", "Release")
    return tree


def release(harness, tree, names=None):
    """Copy the installed release, or some of its files, to a tree with the release's
    `pyproject.toml`.
    """
    assert version(harness) == patches.RELEASES[harness]
    package = Path(find_spec(harness).origin).parent
    tree.mkdir(parents=True, exist_ok=True)
    if names is None:
        shutil.copytree(package, tree / harness, ignore=shutil.ignore_patterns("__pycache__"))
    for name in names or ():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package.parent / name, tree / name)
    project = f'[project]\nname = "{harness}"\nversion = "{patches.RELEASES[harness]}"\n'
    (tree / "pyproject.toml").write_text(project)
    return tree


def build(name, checkout, out, *options):
    command = [sys.executable, UPSTREAM / "build", name, checkout, "--out", out, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FOREVER_S, check=False)
    return done.returncode, done.stdout + done.stderr


def files(folder):
    return [
        path
        for path in (folder / "files").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]


@by_name
def test_a_folder_is_complete(folder):
    assert {"PR.md", "check"} <= {path.name for path in folder.iterdir()}
    assert (folder / "check").stat().st_mode & 0o111
    assert files(folder)
    patch = [folder / "changes.patch"] if folder in WITH_PATCH else []
    for path in [*files(folder), *patch]:
        assert not re.search(r"lmms[_-]egoplan", path.read_text(encoding="utf-8")), path


@by_name
def test_a_description_has_the_fields_of_the_harness(folder):
    text = (folder / "PR.md").read_text(encoding="utf-8")
    title, *_ = text.splitlines()
    if patches.harness_of(folder) == "lmms_eval":
        assert re.match(r"# (feat|fix): ", title)
    parts = {
        match[1]: match[2]
        for match in re.finditer(r"^## (.+)\n((?:(?!^## ).*\n)*)", text, re.MULTILINE)
    }
    assert {"Summary", "In scope", "Out of scope", "Validation"} <= parts.keys()
    assert 1 <= len(re.findall(r"^- ", parts["Summary"], re.MULTILINE)) <= 3
    header, _, *rows = re.findall(r"^\|.+\|$", parts["Validation"], re.MULTILINE)
    assert header == "| command | N | key metrics | result |"
    assert 1 <= len(rows) <= 3


@by_name
def test_required_pull_requests_exist_and_are_for_the_same_harness(folder):
    required = patches.requirements(folder)
    assert folder not in required
    assert {patches.harness_of(path) for path in required} <= {patches.harness_of(folder)}


def test_an_unknown_requirement_is_an_error(tmp_path):
    (tmp_path / "1-test").mkdir()
    (tmp_path / "1-test" / "requires").write_text("0-missing\n")
    with pytest.raises(patches.PatchError, match="0-missing"):
        patches.requirements(tmp_path / "1-test")


@pytest.mark.parametrize("folder", WITH_PATCH, ids=lambda folder: folder.name)
def test_a_patch_applies_to_the_release(folder, tmp_path):
    harness, ordered = patches.harness_of(folder), [*patches.requirements(folder), folder]
    new = {str(name) for path in ordered for name in patches.new_files(path)}
    changed = {str(name) for path in ordered for name in patches.changed_files(path)} - new
    tree = release(harness, tmp_path, sorted(changed))
    for path in ordered:
        moved = patches.apply_patch(path, tree, patches.RELEASES[harness])
        assert path != folder or patches.requirements(folder) or not moved
        patches.copy_files(path, tree)
    for hunk in patches.hunks(folder / "changes.patch"):
        lines = hunk.text.splitlines()[1:]
        assert all(line.startswith(" ") for line in lines[: min(3, hunk.start - 1)]), hunk
        assert sum(line.startswith(" ") for line in lines) >= min(3, len(hunk.old_lines)), hunk


@pytest.fixture
def one_hunk(tmp_path):
    """A pull request that adds a line after line 10 of a file of 20 lines."""
    before = [f"line {number}\n" for number in range(1, 21)]
    for name, text in (("a", before), ("b", [*before[:10], "new\n", *before[10:]])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text("".join(text))
    command = ["git", "diff", "--no-index", "--no-prefix", "a/code.py", "b/code.py"]
    patch = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    ).stdout
    folder = tmp_path / "1-test"
    folder.mkdir()
    (folder / "changes.patch").write_text(patch)
    return folder, before


def test_a_hunk_at_another_line_is_reported(one_hunk, tmp_path):
    folder, before = one_hunk
    (tmp_path / "code.py").write_text("".join(["added\n", *before]))
    (moved,) = patches.apply_patch(folder, tmp_path, "1.0")
    assert re.fullmatch(r"code.py, hunk 1: @@ -8,6 \+8,7 @@.* applies at line 9", moved)
    assert (tmp_path / "code.py").read_text().splitlines()[11] == "new"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (
            lambda lines: [*lines[:8], "edited\n", *lines[9:]],
            "code.py, hunk 1: @@ -8,6 .* does not apply",
        ),
        (lambda lines: ["added\n", *lines, *lines], "code.py, hunk 1: .* fits in 2 places"),
        (lambda lines: None, "code.py does not exist"),
    ],
    ids=["edited", "twice", "missing"],
)
def test_a_hunk_that_does_not_fit_is_an_error(one_hunk, edit, reason, tmp_path):
    folder, before = one_hunk
    if lines := edit(before):
        (tmp_path / "code.py").write_text("".join(lines))
    with pytest.raises(
        patches.PatchError, match=rf"1-test/changes.patch is made for release 1.0; here, {reason}"
    ):
        patches.apply_patch(folder, tmp_path, "1.0")


@pytest.mark.parametrize("harness", sorted(patches.RELEASES))
def test_every_stored_linter_has_a_version(harness, tmp_path):
    packages = linters.Linters(tmp_path, harness, tmp_path).packages()
    assert all(re.fullmatch(r"[\w-]+==\d+\.\d+\.\d+", package) for package in packages)


def test_an_unknown_linter_is_an_error(tmp_path):
    hooks = "repos: [{repo: https://example.org/hooks, rev: v1.0.0, hooks: [{id: unknown-hook}]}]"
    (tmp_path / linters.CONFIGURATION).write_text(hooks)
    with pytest.raises(linters.LinterError, match="unknown-hook"):
        linters.Linters(tmp_path, "lmms_eval", tmp_path).packages()


FIX = "1-likelihood-results"


@pytest.fixture
def checkout(tmp_path):
    """A git tree with those files of lmms-eval that one pull request changes."""
    tree = tmp_path / "checkout"
    return commit(
        release("lmms_eval", tree, [str(name) for name in patches.changed_files(UPSTREAM / FIX)])
    )


def refusal(checkout, tmp_path):
    """Return what `build` prints when it refuses a checkout."""
    status, output = build(FIX, checkout, tmp_path / "out")
    assert status == 1
    return output


def test_build_refuses_a_checkout_with_changes(checkout, tmp_path):
    (checkout / "pyproject.toml").write_text('[project]\nname = "lmms_eval"\n')
    assert "has uncommitted changes" in refusal(checkout, tmp_path)
    assert git(checkout, "branch", "--list", FIX) == ""


def test_build_refuses_another_project(tmp_path):
    checkout = commit(release("lm_eval", tmp_path / "checkout", ()))
    assert f"is a checkout of lm_eval; {FIX} is for lmms_eval" in refusal(checkout, tmp_path)


def test_build_refuses_a_folder_of_a_checkout(checkout, tmp_path):
    assert "is not the root of a git checkout" in refusal(checkout / "lmms_eval", tmp_path)


def test_build_refuses_an_existing_branch(checkout, tmp_path):
    git(checkout, "branch", FIX)
    assert f"git branch -D {FIX}" in refusal(checkout, tmp_path)


def test_build_names_the_hunk_that_does_not_apply(checkout, tmp_path):
    hunk = next(patches.hunks(UPSTREAM / FIX / "changes.patch"))
    file = checkout / hunk.file
    file.write_text(
        file.read_text(encoding="utf-8").replace(hunk.old_lines[0], "EDITED = True"),
        encoding="utf-8",
    )
    git(checkout, "commit", "--quiet", "--all", "--message", "Edit")
    assert (
        f"made for release {patches.RELEASES['lmms_eval']}; here, {hunk} does not apply"
        in refusal(checkout, tmp_path)
    )
    assert git(checkout, "branch", "--list", FIX) == ""
    assert len(git(checkout, "worktree", "list").splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["3b-shared-context", "4c-actplan"])
def test_the_branch_builds_on_the_release(name, tmp_path):
    """A feature with requirements, and a task: every step except the linters, which need the
    package registry.
    """
    folder = UPSTREAM / name
    checkout = commit(release(patches.harness_of(folder), tmp_path / "checkout"))
    status, output = build(folder.name, checkout, tmp_path / "out", "--no-linters")
    assert status == 0, output
    subjects = git(checkout, "log", "--format=%s", "--reverse", f"main..{folder.name}").splitlines()
    title = (folder / "PR.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    assert subjects[-1] == title
    assert title.startswith("fix:") == any(subject.startswith("test:") for subject in subjects[-2:])
    assert (
        len(list((tmp_path / "out").glob("*.patch")))
        == len(subjects)
        > len(patches.requirements(folder))
    )
    assert git(checkout, "rev-parse", "--abbrev-ref", "HEAD").strip() == "main"
    assert git(checkout, "status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.parametrize(
    "folder", [PULL_REQUESTS[0], PULL_REQUESTS[-1]], ids=lambda folder: folder.name
)
def test_the_check_fails_with_another_release(folder, tmp_path):
    harness = patches.harness_of(folder)
    information = tmp_path / f"{harness}-0.0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {harness}\nVersion: 0.0.1\n"
    )
    command, variables = (
        [sys.executable, folder / "check"],
        {**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (
        f"{harness} 0.0.1 is installed; this check needs {patches.RELEASES[harness]}" in done.stdout
    )


@pytest.mark.whole
@pytest.mark.parametrize("name", ["2-task-entry-points", "4e-egoplan-parser"])
def test_the_check_passes(name, tmp_path):
    """A feature and a fix. `.ci/nightly upstream` runs all checks."""
    folder = UPSTREAM / name
    done = subprocess.run(
        [sys.executable, folder / "check"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=FOREVER_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
