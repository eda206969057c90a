import pytest


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Create an empty data root."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_learnt(monkeypatch):
    """Forget earlier servers, which may have had the same port."""
    monkeypatch.setattr("lmms_egoplan.judging.client._limit_names", {})
    monkeypatch.setattr("lmms_egoplan.judging.client._without_schema", set())
