import pytest


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty data root."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_learnt(monkeypatch):
    """An earlier server may have had the same port."""
    monkeypatch.setattr("lmms_egoplan.judging.client._learnt_names", {})
