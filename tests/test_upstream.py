"""Pull requests in `upstream/`: generated files, contents of their folders, and their own checks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from patience import FOREVER_S

UPSTREAM = Path(__file__).parents[1] / "upstream"
PULL_REQUESTS = sorted(path.parent for path in UPSTREAM.glob("*/PR.md"))
by_name = pytest.mark.parametrize("folder", PULL_REQUESTS, ids=lambda folder: folder.name)


def files(folder):
    return [path for path in (folder / "files").rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_generated_files_are_those_of_the_package(tmp_path):
    subprocess.run([sys.executable, UPSTREAM / "generate", tmp_path], check=True)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == len(list(UPSTREAM.glob("*/templates/**/*.py"))) > 0
    for path in written:
        stored = UPSTREAM / path.relative_to(tmp_path)
        assert stored.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), (
            f"run upstream/generate: {stored}"
        )


def test_a_changed_source_is_noticed(tmp_path):
    """A template that names an unknown source is an error."""
    (tmp_path / "1-test" / "templates").mkdir(parents=True)
    (tmp_path / "1-test" / "templates" / "a.py").write_text("# source: lmms_egoplan.paths: no_such_name\n")
    (tmp_path / "generate").write_text((UPSTREAM / "generate").read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, tmp_path / "generate"], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "no_such_name" in done.stderr


@by_name
def test_a_folder_is_complete(folder):
    assert {"PR.md", "check"} <= {path.name for path in folder.iterdir()}
    assert (folder / "check").stat().st_mode & 0o111
    assert files(folder)
    for path in files(folder):
        assert not re.search(r"lmms[_-]egoplan", path.read_text(encoding="utf-8")), path


@by_name
def test_a_description_has_the_fields_of_the_harness(folder):
    text = (folder / "PR.md").read_text(encoding="utf-8")
    title, *_ = text.splitlines()
    if "lm-evaluation-harness" not in text:
        assert re.match(r"# (feat|fix): ", title)
    parts = {match[1]: match[2] for match in re.finditer(r"^## (.+)\n((?:(?!^## ).*\n)*)", text, re.MULTILINE)}
    assert {"Summary", "In scope", "Out of scope", "Validation"} <= parts.keys()
    assert 1 <= len(re.findall(r"^- ", parts["Summary"], re.MULTILINE)) <= 3
    assert "| command | N | key metrics | result |" in parts["Validation"]


@pytest.mark.whole
@by_name
def test_the_check_passes(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, folder / "check"], cwd=tmp_path, capture_output=True, text=True, timeout=FOREVER_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
