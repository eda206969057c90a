import pytest

from benchmarks.actplan.report.synthetic_runs import logged_plans, written_runs
from lmms_egoplan.benchmarks.actplan import report as actplan
from lmms_egoplan.report.runs import read_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data root and runs."""
    with written_runs(tmp_path_factory.mktemp("actplan")) as place:
        yield place


@pytest.fixture(scope="module")
def runs(folder):
    return read_runs([folder / "runs"]).runs


@pytest.fixture(scope="module")
def section(runs):
    return actplan.section(runs)


@pytest.fixture(scope="module")
def logged(folder):
    """The plans that the runs logged, straight from their files."""
    return logged_plans(folder)
