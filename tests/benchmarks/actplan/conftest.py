import pytest


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data root that does not exist yet."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"
