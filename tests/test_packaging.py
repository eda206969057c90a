"""What a release brings: all files in the source distribution, and the same version and bounds everywhere."""

import configparser
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import lmms_egoplan
from lmms_egoplan.benchmarks.registry import BENCHMARKS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def settings():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def test_the_source_distribution_has_every_file_of_the_repository(tmp_path):
    pytest.importorskip("setuptools", minversion="77", reason="builds without a network")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no clone")
    files = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    for name in files:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "source" / name)
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=tmp_path / "source", check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        brought = {member.name.partition("/")[2] for member in packed if member.isfile()}
    assert {
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        ".ci/run",
        "perf/README.md",
        "tests/conftest.py",
    } <= brought
    assert not set(files) - brought


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == lmms_egoplan.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {citation['version']} ({citation['date-released']})\n" in changes


def test_the_citation_has_the_paper_of_each_benchmark():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    cited = [{reference["title"], reference["url"]} for reference in citation["references"]]
    papers = [benchmark.paper for benchmark in BENCHMARKS if benchmark.paper]
    assert len(cited) == len(papers)
    assert all(paper in reference for paper, reference in zip(papers, cited, strict=True))


def test_requirements_have_lower_bounds_alone(settings):
    """An upper bound would move a package that a user's environment has."""
    for line in settings["options"]["install_requires"].split("\n"):
        if line:
            assert {part.operator for part in Requirement(line).specifier} == {">="}, line


def test_every_folder_with_code_or_tasks_is_a_package():
    packages = "import setuptools; setuptools.setup = lambda packages: print(*packages); exec(open('setup.py').read())"
    done = subprocess.run([sys.executable, "-c", packages], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [
        path
        for name in ("lmms_egoplan", "tasks")
        for kind in ("py", "yaml")
        for path in ROOT.glob(f"{name}/**/*.{kind}")
    ]
    folders = {package_of(path.parent) for path in files}
    assert {name if name.startswith("lmms_egoplan") else f"lmms_egoplan.{name}" for name in folders} <= {
        *done.stdout.split()
    }


def test_every_file_of_the_package_is_installed(settings):
    """Files that are no code are named by `package_data`, for all packages or for their own."""
    patterns = {package: value.replace(",", " ").split() for package, value in settings["options.package_data"].items()}
    left_out = []
    for file in (ROOT / "lmms_egoplan").rglob("*"):
        if file.is_dir() or file.suffix == ".py" or "__pycache__" in file.parts:
            continue
        named = [(parent, name) for parent in file.parents for name in patterns.get(package_of(parent), ())]
        named += [(file.parent, name) for name in patterns["*"]]
        if not any(file in parent.glob(name) for parent, name in named):
            left_out.append(str(file.relative_to(ROOT)))
    assert left_out == []


def package_of(folder):
    return ".".join(folder.relative_to(ROOT).parts) if folder.is_relative_to(ROOT) else ""
