"""Require examples in docstrings; pytest's doctest option runs them."""

import importlib
import inspect
from pathlib import Path

import pytest

import lmms_egoplan
from lmms_egoplan.benchmarks.actplan.scoring import lcs_lengths, lcs_norm
from lmms_egoplan.benchmarks.egoplan.metrics import rank
from lmms_egoplan.judging.judge import judge_all, probe
from lmms_egoplan.ranking import CandidateRanker, CandidateScore

PACKAGE = Path(lmms_egoplan.__file__).parent
MODULES = [
    *sorted(PACKAGE.glob("benchmarks/**/metrics.py")),
    PACKAGE / "benchmarks" / "aggregations.py",
    PACKAGE / "judging" / "agreement.py",
    PACKAGE / "judging" / "panel.py",
    PACKAGE / "report" / "calibration.py",
    PACKAGE / "report" / "statistics.py",
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: "/".join(path.relative_to(PACKAGE).parts))
def test_each_public_function_of_a_module_of_metrics_has_an_example(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    functions = inspect.getmembers(importlib.import_module(name), inspect.isfunction)
    public = {name_: function for name_, function in functions if function.__module__ == name and name_[0] != "_"}
    assert public
    assert [name_ for name_, function in public.items() if ">>>" not in inspect.getdoc(function)] == []


@pytest.mark.parametrize("public", [CandidateRanker, CandidateScore, judge_all, lcs_lengths, lcs_norm, probe, rank])
def test_public_functions_have_an_example(public):
    assert ">>>" in inspect.getdoc(public)
