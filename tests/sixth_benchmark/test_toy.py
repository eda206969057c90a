"""Add a sixth benchmark to a copy of the project, as a contributor would, and use it.

``files/`` has the benchmark's own files at their paths in the project, and ``shared.patch`` the
lines in shared files.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from judge_server import JudgeServer, Reply
from patience import FOREVER_S
from sixth_benchmark.questions import THINGS, choices, write_questions

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = HERE / "files"
PATCH = HERE / "shared.patch"
IGNORED = (".git", "__pycache__", ".*_cache", "*.egg-info", "build")
# Things whose answers the judge calls right.
RIGHT = ("wall", "floor", "cup")


def shared_files():
    """Return the paths of the files in the patch."""
    return re.findall(r"^\+\+\+ b/(.+)$", PATCH.read_text(encoding="utf-8"), re.MULTILINE)


def own_files():
    """Return the paths of the benchmark's own files."""
    return [path.relative_to(FILES) for path in FILES.rglob("*") if path.is_file()]


def environment(project, **variables):
    """Return the environment of a command in the copy: no judge, and no network."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LMMS_", "OPENAI"))
    }
    settings = {"PYTHONPATH": str(project), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return inherited | settings | variables


def run(project, *command, cwd, **variables):
    """Run a command of the copy to its end, and return its output."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment(project, **variables),
        capture_output=True,
        text=True,
        timeout=FOREVER_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a copy of the project with the sixth benchmark."""
    copy = tmp_path_factory.mktemp("sixth") / "project"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*IGNORED))
    subprocess.run(["git", "apply", PATCH], cwd=copy, check=True)
    shutil.copytree(FILES, copy, dirs_exist_ok=True)
    return copy


def test_it_changes_five_shared_files():
    assert shared_files() == [
        "lmms_egoplan/benchmarks/base.py",
        "lmms_egoplan/benchmarks/splits.py",
        "lmms_egoplan/cli/__init__.py",
        "lmms_egoplan/report/benchmarks.py",
        "pyproject.toml",
    ]


def test_its_own_files_are_new():
    assert own_files()
    assert not [path for path in own_files() if (ROOT / path).exists()]


def test_the_contracts_of_imports_are_kept(project):
    lint = shutil.which("lint-imports", path=Path(sys.executable).parent) or "lint-imports"
    assert "Contracts: 7 kept, 0 broken." in run(project, lint, cwd=project)


@pytest.mark.whole
def test_it_passes_the_tests_of_all_benchmarks(project):
    tests = ("tests/benchmarks/test_base.py", "lmms_egoplan/benchmarks/toy")
    pytest_arguments = ("-m", "pytest", "-n0", "-vv", "-p", "no:cacheprovider")
    output = run(project, sys.executable, *pytest_arguments, *tests, cwd=project)
    assert "test_tasks_are_those_of_both_harnesses[toy] PASSED" in output


@pytest.fixture
def judge():
    """Start a judge that rates by the thing in the question."""

    def reply(prompt, _count):
        thing = re.search(r"What colour is the (\w+)\?", prompt)
        is_right = thing is not None and thing[1] in RIGHT
        return Reply(f"Rating: [[{int(is_right)}]]")

    with JudgeServer(reply) as server:
        yield server


@pytest.mark.whole
def test_from_published_questions_to_the_report(project, judge, tmp_path):
    from lmms_egoplan.demo.checkpoint import write_checkpoint  # imports torch

    write_checkpoint(tmp_path / "checkpoint")
    write_questions(tmp_path / "questions")
    variables = {
        "LMMS_EGOPLAN_DATA": str(tmp_path / "data"),
        "LMMS_EGOPLAN_JUDGE_BASE_URL": judge.url,
        "LMMS_EGOPLAN_JUDGE_MODEL": "judge-of-the-toy",
    }

    def command(*arguments):
        words = (sys.executable, "-m", "lmms_egoplan", *arguments)
        return run(project, *words, cwd=tmp_path, **variables)

    prepared = command("data", "prepare", "toy", "questions")
    assert "Question set: official. " in prepared
    assert "4 questions. " in prepared
    evaluation = ("run", "checkpoint", "--benchmarks", "toy")
    checked = command(*evaluation, "--check")
    assert "Nothing is missing." in checked
    rows = [line.split()[:2] for line in checked.splitlines()]
    assert ["toy", "4"] in rows
    assert ["toy_ranked", "4"] in rows
    for harness in ("lmms-eval", "lm-eval"):
        command(*evaluation, "--harness", harness, "--out", f"runs/{harness}")
    ranked = {
        harness: check_run(tmp_path / "runs" / harness) for harness in ("lmms-eval", "lm-eval")
    }
    assert ranked["lmms-eval"] == ranked["lm-eval"]
    rows = [line.split()[:1] for line in command("show", "runs").splitlines()]
    assert rows.count(["checkpoint"]) == 1  # the runs of both harnesses are of one model
    shown = command("show", "runs", "--details")
    assert "toy_ranked" in shown
    assert "judge-of-the-toy" in shown
    command("report", "runs", "--out", "report")
    check_report(tmp_path / "report", ranked["lm-eval"])


def check_run(out):
    """Check the scores of both tasks, and return that of the ranked one."""
    (path,) = [*out.glob("results/**/*_results.json"), *out.glob("results/**/results_*.json")]
    content = json.loads(path.read_text(encoding="utf-8"))
    answered = content["results"]["toy"]
    ranked = content["results"]["toy_ranked"]
    assert answered["score,judged"] == 75
    for name, values in (("judged", answered), ("none", ranked)):
        assert values[f"coverage,{name}"] == 1
        assert values[f"question_set,{name}"] == "official"
    assert content["details"]["toy"]["judge_model"] == "judge-of-the-toy"
    assert content["details"]["toy_ranked"]["num_questions"] == len(THINGS)
    (samples,) = out.glob("results/**/*samples_toy_ranked*.jsonl")
    scores = []
    for line in samples.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        answer = sample["details"]["answer"]
        _, best = min(zip(answer["losses"], choices(answer["id"]), strict=True))
        scores.append(100 * (best == sample["target"]))
    assert len(scores) == len(THINGS)
    assert ranked["score,none"] == sum(scores) / len(scores)
    return ranked["score,none"]


def check_report(out, ranked):
    """Check the table of scores, the section of the page, and the gallery."""
    with (out / "tables" / "toy_scores.csv").open(encoding="utf-8") as file:
        rows = [(row["task"], float(row["score"])) for row in csv.DictReader(file)]
    assert rows == [("toy", 75.0), ("toy_ranked", ranked)]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Four questions about pictures." in page
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    (section,) = report["benchmarks"]
    assert section["key"] == "toy"
    assert len([*(out / "gallery").rglob("*.jpg")]) >= len(THINGS)
