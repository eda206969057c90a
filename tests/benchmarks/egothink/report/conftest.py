"""EgoThink's runs that never were, and prepared data, for the tests of a module."""

import pytest

from benchmarks.egothink.report.synthetic_runs import prepared_data, write_runs
from lmms_egoplan.benchmarks.egothink import report as egothink
from lmms_egoplan.report.runs import read_runs


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def runs(written):
    return read_runs([written]).runs


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    with prepared_data(tmp_path_factory.mktemp("data")) as root:
        yield root


@pytest.fixture(scope="module")
def section(runs, prepared):
    return egothink.section(runs)
