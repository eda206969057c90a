import pytest


@pytest.fixture(autouse=True)
def no_run_id(monkeypatch):
    """The backend sets the variable for its process."""
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "")
    monkeypatch.delenv("LMMS_CACHE_RUN_ID")
