"""The contents of a release: all files in both distributions, and the same version and bounds
everywhere.
"""

import configparser
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import lmms_egoplan
from lmms_egoplan.benchmarks.base import BENCHMARKS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def files():
    """Return the paths of the repository's files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a Git clone")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def build(files, tmp_path_factory):
    """Return a function that builds a distribution from the repository's files and returns its
    path.
    """
    pytest.importorskip("setuptools", minversion="77", reason="builds without a network")
    folder = tmp_path_factory.mktemp("release")
    for name in files:
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)

    def build(kind, ending):
        code = (
            f"import sys; from setuptools.build_meta import build_{kind}; build_{kind}(sys.argv[1])"
        )
        subprocess.run(
            [sys.executable, "-c", code, folder],
            cwd=folder / "source",
            check=True,
            capture_output=True,
        )
        (path,) = folder.glob(f"*{ending}")
        return path

    return build


def test_the_source_distribution_has_every_file_of_the_repository(files, build):
    with tarfile.open(build("sdist", ".tar.gz")) as packed:
        names = {member.name.partition("/")[2] for member in packed if member.isfile()}
    assert {
        "CHANGELOG.md",
        "CITATION.cff",
        ".ci/run",
        "perf/README.md",
        "tests/conftest.py",
    } <= names
    assert sorted(files - names) == []


def test_the_wheel_has_every_file_of_the_package_and_the_tasks_inside_it(files, build):
    with zipfile.ZipFile(build("wheel", ".whl")) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    package_files = {name for name in files if name.startswith("lmms_egoplan/")}
    assert names == package_files | {
        f"lmms_egoplan/{name}" for name in files if name.startswith("tasks/")
    }
    metrics = "lmms_egoplan/benchmarks/actplan/evaluate_metrics/"
    assert {f"{metrics}{name}/{name}.py" for name in ("actplan_lcs", "actplan_classifier")} <= names


def test_the_citation_is_of_this_version_and_has_the_paper_of_each_benchmark():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == lmms_egoplan.__version__
    cited = [{reference["title"], reference["url"]} for reference in citation["references"]]
    papers = [benchmark.paper for benchmark in BENCHMARKS if benchmark.paper]
    assert len(cited) == len(papers)
    assert all(paper in reference for paper, reference in zip(papers, cited, strict=True))


def test_requirements_have_only_lower_bounds():
    """An upper bound would downgrade packages in users' environments. lmms-eval 0.7.3 cannot run
    without filelock's.
    """
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    for line in settings["options"]["install_requires"].split("\n"):
        if line:
            requirement = Requirement(line)
            operators = {part.operator for part in requirement.specifier}
            assert operators == ({">=", "<"} if requirement.name == "filelock" else {">="}), line
