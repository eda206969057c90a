"""The runs of `synthetic_runs`, and what the report makes of them: written and computed once for all modules."""

import pytest

from benchmarks.egothink.report.synthetic_runs import prepared_data, write_runs
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport
from lmms_egoplan.report.runs import read_runs


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def runs(written):
    return read_runs([written]).runs


@pytest.fixture(scope="session")
def prepared_once(tmp_path_factory):
    with prepared_data(tmp_path_factory.mktemp("data")) as root:
        return root


@pytest.fixture(scope="session")
def made(runs, prepared_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(prepared_once))
        return EgoThinkReport(runs).section()


@pytest.fixture(scope="module")
def prepared(prepared_once):
    """The prepared data, which are found while a module's tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(prepared_once))
        yield prepared_once


@pytest.fixture(scope="module")
def section(made, prepared):
    return made
