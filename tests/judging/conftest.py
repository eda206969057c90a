import pytest


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Create an empty data root."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path
