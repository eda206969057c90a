import pytest

from benchmarks.egointent.report.synthetic_runs import prepared_data, write_runs
from lmms_egoplan.benchmarks.egointent import report as egointent
from lmms_egoplan.report.runs import read_runs


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of three runs."""
    return write_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def runs(written):
    return read_runs([written]).runs


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The data root with the steps of the runs."""
    with prepared_data(tmp_path_factory.mktemp("data")) as root:
        yield root


@pytest.fixture(scope="module")
def section(runs, prepared):
    return egointent.section(runs)
