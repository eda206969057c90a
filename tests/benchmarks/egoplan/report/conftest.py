"""EgoPlan's runs that never were, for the tests of a module."""

import pytest

from benchmarks.egoplan.report.synthetic_runs import written_runs
from lmms_egoplan.benchmarks.egoplan import report as egoplan
from lmms_egoplan.report.runs import read_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with written_runs(tmp_path_factory.mktemp("egoplan")) as place:
        yield place


@pytest.fixture(scope="module")
def bert(folder):
    return str(folder / "bert")


@pytest.fixture(scope="module")
def runs(folder):
    return read_runs([folder / "runs"]).runs


@pytest.fixture(scope="module")
def section(runs, bert):
    return egoplan.section(runs, bert)
