"""Create a data root and small EgoThink data."""

import pytest

from benchmarks.egothink.source import write_source


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "source")
