"""The runs of `synthetic_runs`, and what the report makes of them: written and computed once for all modules."""

import pytest
import sentence_transformers  # noqa: F401  # else each report would load it in a process of its own

from benchmarks.egoplan.report.synthetic_runs import written_runs
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.report.benchmark import Inputs
from lmms_egoplan.report.runs import read_runs


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    with written_runs(tmp_path_factory.mktemp("egoplan")) as place:
        return place


@pytest.fixture(scope="session")
def read(written):
    return read_runs([written / "runs"]).runs


@pytest.fixture(scope="session")
def made(written, read):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(written))
        return EgoPlanReport(read, Inputs(str(written / "bert"))).section()


@pytest.fixture(scope="module")
def folder(written):
    """Runs and prepared data, which are found while a module's tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(written))
        yield written


@pytest.fixture(scope="module")
def runs(read, folder):
    return read


@pytest.fixture(scope="module")
def section(made, folder):
    return made


@pytest.fixture(scope="module")
def bert(folder):
    return str(folder / "bert")
